"use strict";

// Bar charts: stacked, or of a rate with a limit. Each is drawn from the table below it.
(() => {
  const HEIGHT = 220, CUT_OFF = 10;
  // Every name in the tables, as `Result` and `KNOWN_TYPES` define them; it has the same color in
  // every period: 0 to 2 are OK, 3 to 5 and 9 attention, 6 broken, 7 and 8 neutral.
  const COLORS = new Map([
    ["Delivery", 0], ["Open", 1], ["Click", 2], ["Bounce", 3], ["SpamComplaint", 6],
    ["SubscriptionChange", 7], ["other", 8],
    ["recorded", 0], ["dispatch not found", 3], ["subscriber not found", 4],
    ["recipient mismatch", 5], ["unsupported", 9], ["failed", 6], ["test", 7], ["unmapped", 8],
  ]);
  const TICKS = [0, 1, 2, 3, 4, 5, 6].flatMap((n) => [1, 2, 5].map((each) => each * 10 ** n));

  const cssColor = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const isoTime = (seconds) => new Date(seconds * 1000).toISOString();

  function readTable(table) {
    const rows = [...table.tBodies[0].rows];
    const heads = [...table.tHead.rows[0].cells].slice(1), names = heads.map((cell) => cell.textContent.trim());
    return {
      names,
      links: heads.map((cell) => cell.querySelector("a")?.href),
      colors: names.map((name) => COLORS.get(name)),
      times: rows.map((row) => Date.parse(row.querySelector("time").dateTime) / 1000),
      counts: names.map((_, n) => rows.map((row) => Number(row.cells[n + 1].textContent.replace(/\D/g, "")))),
    };
  }

  // Each series is drawn as the sum of itself and those below it, so the highest is drawn first.
  function stack(counts) {
    const sums = [];
    counts.forEach((each, n) => sums.push(each.map((count, i) => count + (n ? sums[n - 1][i] : 0))));
    return sums.reverse();
  }

  // Returns the legend, and a function that shows the counts of a bucket in it, or the totals.
  function createLegend({ names, links, colors, times, counts }) {
    const list = Object.assign(document.createElement("ul"), { className: "legend" });
    const numbers = names.map((name, n) => {
      const item = document.createElement("li"), number = document.createElement("b");
      const square = Object.assign(document.createElement("span"), { className: `square c${colors[n]}` });
      const label = links[n] ? Object.assign(document.createElement("a"), { href: links[n], textContent: name }) : name;
      item.append(square, label, " ", number);
      list.append(item);
      return number;
    });
    const start = document.createElement("li");
    list.append(start);
    const select = (bucket) => {
      numbers.forEach((number, n) => {
        const count = bucket == null ? counts[n].reduce((sum, each) => sum + each, 0) : counts[n][bucket];
        number.textContent = count.toLocaleString("en");
      });
      start.textContent = bucket == null ? "" : `from ${isoTime(times[bucket]).slice(0, 16).replace("T", " ")}Z`;
    };
    select(null);
    return { list, select };
  }

  // The values of `plots` are drawn as bars, each over the previous one.
  function drawBars(element, times, plots, range, values, hooks) {
    const step = times[1] - times[0];
    const axis = { stroke: cssColor("--quiet"), grid: { stroke: cssColor("--line"), width: 1 }, ticks: { show: false } };
    const paths = uPlot.paths.bars({ size: [0.85, 60], align: 1 });
    const series = plots.map(({ color }) => {
      const fill = cssColor(`--c${color}`);
      return { fill, stroke: fill, width: 0, paths, points: { show: false } };
    });
    const label = (seconds) => {
      const hour = isoTime(seconds).slice(11, 16);
      return step >= 86400 || hour === "00:00" ? isoTime(seconds).slice(5, 10) : hour;
    };
    return new uPlot({
      width: element.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      scales: {
        x: { range: [times[0], times[times.length - 1] + step] },
        y: { range: (_, min, max) => range(max) },
      },
      axes: [
        { ...axis, size: 32, values: (_, splits) => splits.map(label), grid: { show: false } },
        { ...axis, size: 56, ...values },
      ],
      series: [{}, ...series],
      hooks,
    }, [times, ...plots.map((each) => each.values)], element);
  }

  function drawStacked(element, { colors, times, counts }, select) {
    const reversed = [...colors].reverse();
    const plots = stack(counts).map((values, n) => ({ values, color: reversed[n] }));
    const hooks = { setCursor: [(plot) => select(plot.cursor.idx)] };
    return drawBars(element, times, plots, (max) => [0, Math.max(max, 4) * 1.05], { incrs: TICKS }, hooks);
  }

  // A rate in percent: a dashed line is at the limit. Bars above it have another color, unless they
  // are due to very few suppressions.
  // Higher bars are cut off, because the limit would not be visible beside them.
  function drawRate(element, { times, rates, above }, limit, select) {
    const parts = [rates.map((each, n) => (above[n] ? null : each)), rates.map((each, n) => (above[n] ? each : null))];
    const plots = [{ values: parts[0], color: 0 }, { values: parts[1], color: 6 }];
    const line = ({ ctx, bbox, valToPos }) => {
      const y = Math.round(valToPos(limit, "y", true)), ratio = devicePixelRatio;
      ctx.save();
      ctx.strokeStyle = cssColor("--text");
      ctx.lineWidth = 2 * ratio;
      ctx.setLineDash([6 * ratio, 4 * ratio]);
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
      ctx.restore();
    };
    const values = { values: (_, splits) => splits.map((each) => `${Number(each.toFixed(3))}%`) };
    const hooks = { draw: [line], setCursor: [(plot) => select(plot.cursor.idx)] };
    const range = (max) => [0, Math.min(Math.max(max * 1.05, 2 * limit), CUT_OFF * limit)];
    return drawBars(element, times, plots, range, values, hooks);
  }

  function readRates(table) {
    const rows = [...table.tBodies[0].rows];
    return {
      times: rows.map((row) => Date.parse(row.querySelector("time").dateTime) / 1000),
      texts: rows.map((row) => row.cells[1].textContent.trim()),
      rates: rows.map((row) => Number.parseFloat(row.cells[1].textContent) || 0),
      above: rows.map((row) => "above" in row.cells[1].dataset),
    };
  }

  // Returns the legend of a rate, and a function that shows the rate of a bucket in it.
  function createRateLegend({ times, texts, rates }, limit) {
    const list = Object.assign(document.createElement("ul"), { className: "legend" });
    const highest = CUT_OFF * limit, above = Math.max(...rates) > highest ? `above it, cut off at ${highest}%` : "above it";
    const items = [["c0", "within the limit, or very few"], ["c6", above], ["limit", `limit of ${limit}%`]].map(([name, text]) => {
      const item = document.createElement("li");
      item.append(Object.assign(document.createElement("span"), { className: `square ${name}` }), text);
      return item;
    });
    const shown = document.createElement("li");
    list.append(...items, shown);
    const select = (bucket) => {
      shown.textContent = bucket == null ? "" : `${texts[bucket]} from ${isoTime(times[bucket]).slice(0, 16).replace("T", " ")}Z`;
    };
    return { list, select };
  }

  const drawn = new Map();

  // Draws a chart, unless its figures have not changed.
  function draw(element) {
    const table = element.parentElement.querySelector("table"), previous = drawn.get(element);
    if (previous?.text === table.textContent) return;
    const limit = element.dataset.limit && 100 * element.dataset.limit;
    const figures = limit ? readRates(table) : readTable(table);
    const { list, select } = limit ? createRateLegend(figures, limit) : createLegend(figures);
    const bars = document.createElement("div");
    bars.setAttribute("role", "img");
    bars.setAttribute("aria-label", element.dataset.label);
    const focused = [...element.querySelectorAll("a")].indexOf(document.activeElement);
    element.replaceChildren(list, bars);
    list.querySelectorAll("a")[focused]?.focus();
    const plot = limit ? drawRate(bars, figures, limit, select) : drawStacked(bars, figures, select);
    drawn.set(element, { plot, text: table.textContent });
    if (previous) {
      plot.setCursor(previous.plot.cursor);
      previous.plot.destroy();
    } else {
      element.nextElementSibling.open = false;
      new ResizeObserver(() => drawn.get(element)?.plot.setSize({ width: element.clientWidth, height: HEIGHT })).observe(element);
    }
  }

  function drawAll() {
    for (const element of drawn.keys()) if (!element.isConnected) drawn.delete(element);
    document.querySelectorAll(".chart").forEach(draw);
  }

  drawAll();
  document.addEventListener("refreshed", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const chart of drawn.values()) chart.text = null;
    drawAll();
  });
})();
