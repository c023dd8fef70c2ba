"use strict";

// Stacked bar charts. Each is drawn from the table below it.
(() => {
  const HEIGHT = 220;
  // Every name in the tables, as `Result` and `KNOWN_TYPES` define them; it has the same color in
  // every period.
  const COLORS = new Map([
    ["Delivery", 0], ["Open", 1], ["SubscriptionChange", 2], ["Click", 3], ["Bounce", 4],
    ["SpamComplaint", 5], ["other", 6],
    ["recorded", 0], ["subscriber not found", 1], ["dispatch not found", 2],
    ["recipient mismatch", 3], ["failed", 4], ["unsupported", 5], ["test", 6], ["unmapped", 7],
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

  function drawBars(element, { colors, times, counts }, select) {
    const step = times[1] - times[0];
    const axis = { stroke: cssColor("--quiet"), grid: { stroke: cssColor("--line"), width: 1 }, ticks: { show: false } };
    const paths = uPlot.paths.bars({ size: [0.85, 60], align: 1 });
    const series = colors.map((n) => {
      const fill = cssColor(`--c${n}`);
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
        y: { range: (_, min, max) => [0, Math.max(max, 4) * 1.05] },
      },
      axes: [
        { ...axis, size: 32, values: (_, splits) => splits.map(label), grid: { show: false } },
        { ...axis, size: 56, incrs: TICKS },
      ],
      series: [{}, ...series.reverse()],
      hooks: { setCursor: [(plot) => select(plot.cursor.idx)] },
    }, [times, ...stack(counts)], element);
  }

  const drawn = new Map();

  // Draws a chart, unless its figures have not changed.
  function draw(element) {
    const table = element.parentElement.querySelector("table"), previous = drawn.get(element);
    if (previous?.text === table.textContent) return;
    const figures = readTable(table), { list, select } = createLegend(figures);
    const bars = document.createElement("div");
    bars.setAttribute("role", "img");
    bars.setAttribute("aria-label", element.dataset.label);
    const focused = [...element.querySelectorAll("a")].indexOf(document.activeElement);
    element.replaceChildren(list, bars);
    list.querySelectorAll("a")[focused]?.focus();
    const plot = drawBars(bars, figures, select);
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
