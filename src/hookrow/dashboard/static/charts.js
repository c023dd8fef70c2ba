"use strict";

// Charts: each draws the figures of the table that stands below it, stacked.
(() => {
  const HEIGHT = 220;
  const reading = (cell) => Number(cell.textContent.replace(/\D/g, ""));
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const KNOWN = new Map([
    ["Delivery", 0], ["Open", 1], ["SubscriptionChange", 2],
    ["recorded", 0], ["subscriber not found", 1], ["dispatch not found", 2],
    ["recipient mismatch", 3], ["failed", 4], ["unsupported", 5],
  ]);
  const two = (number) => String(number).padStart(2, "0");

  function read(table) {
    const rows = [...table.tBodies[0].rows];
    const names = [...table.tHead.rows[0].cells].slice(1).map((cell) => cell.textContent.trim());
    return {
      names,
      colours: coloured(names),
      times: rows.map((row) => Date.parse(row.querySelector("time").dateTime) / 1000),
      counts: names.map((_, n) => rows.map((row) => reading(row.cells[n + 1]))),
    };
  }

  // A name has the same colour in every period; what is not known takes one that is left.
  function coloured(names) {
    const free = [3, 4, 5, 6, 0, 1, 2].filter((n) => !names.some((name) => KNOWN.get(name) === n));
    return names.map((name) => KNOWN.get(name) ?? free.shift() ?? 6);
  }

  // Of each series what it and those below it add up to; the topmost is drawn first.
  function stacked(counts) {
    const sums = [];
    counts.forEach((each, n) => sums.push(each.map((count, at) => count + (n ? sums[n - 1][at] : 0))));
    return sums.reverse();
  }

  function ticks(step) {
    return (_, splits) => splits.map((at) => {
      const time = new Date(at * 1000);
      const day = `${two(time.getUTCMonth() + 1)}-${two(time.getUTCDate())}`;
      const hour = `${two(time.getUTCHours())}:${two(time.getUTCMinutes())}`;
      return step >= 86400 || hour === "00:00" ? day : hour;
    });
  }

  function legend(figures) {
    const list = document.createElement("ul");
    list.className = "legend";
    const numbers = figures.names.map((name, n) => {
      const item = document.createElement("li"), number = document.createElement("b");
      const square = document.createElement("span");
      square.className = `square c${figures.colours[n]}`;
      item.append(square, `${name} `, number);
      list.append(item);
      return number;
    });
    const about = document.createElement("li");
    list.append(about);
    const tell = (at) => {
      numbers.forEach((number, n) => {
        const counts = figures.counts[n];
        const count = at == null ? counts.reduce((sum, each) => sum + each, 0) : counts[at];
        number.textContent = count.toLocaleString("en");
      });
      const from = at == null ? "" : new Date(figures.times[at] * 1000).toISOString();
      about.textContent = from && `from ${from.slice(0, 10)} ${from.slice(11, 16)}Z`;
    };
    tell(null);
    return { list, tell };
  }

  function draw(place, figures, tell) {
    const { colours, times, counts } = figures, step = times[1] - times[0];
    const line = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const paths = uPlot.paths.bars({ size: [0.85, 60], align: 1 });
    const series = colours.map((n) => {
      const fill = colour(`--c${n}`);
      return { fill, stroke: fill, width: 0, paths, points: { show: false } };
    });
    return new uPlot({
      width: place.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
      scales: {
        x: { range: [times[0], times[times.length - 1] + step] },
        y: { range: (_, least, most) => [0, Math.max(most, 4) * 1.05] },
      },
      axes: [
        { ...line, size: 32, values: ticks(step), grid: { show: false } },
        { ...line, size: 56, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6] },
      ],
      series: [{}, ...series.reverse()],
      hooks: { setCursor: [(drawn) => tell(drawn.cursor.idx)] },
    }, [times, ...stacked(counts)], place);
  }

  const shown = new Map();

  // Draws the chart of a section, where its figures are not those that were drawn last.
  function show(place) {
    const table = place.parentElement.querySelector("table"), before = shown.get(place);
    if (before?.figures === table.textContent) return;
    const figures = read(table), { list, tell } = legend(figures), bars = document.createElement("div");
    bars.setAttribute("role", "img");
    bars.setAttribute("aria-label", place.dataset.drawn);
    place.replaceChildren(list, bars);
    const chart = draw(bars, figures, tell);
    shown.set(place, { chart, figures: table.textContent });
    if (before) {
      chart.setCursor(before.chart.cursor);
      before.chart.destroy();
    } else {
      place.nextElementSibling.open = false;
      new ResizeObserver(() => resize(place)).observe(place);
    }
  }

  function resize(place) {
    shown.get(place)?.chart.setSize({ width: place.clientWidth, height: HEIGHT });
  }

  function showAll() {
    for (const place of shown.keys()) if (!place.isConnected) shown.delete(place);
    document.querySelectorAll("[data-drawn]").forEach(show);
  }

  showAll();
  document.addEventListener("fresh", showAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const drawn of shown.values()) drawn.figures = null;
    showAll();
  });
})();
