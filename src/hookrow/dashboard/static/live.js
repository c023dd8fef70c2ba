"use strict";

// Live updates: the overview and the list of notifications are refreshed every five seconds while
// the page is visible.
(() => {
  const INTERVAL = 5000, MAX_ROWS = 200;

  async function load(url) {
    const response = await fetch(url, { redirect: "error" });
    if (!response.ok) throw new Error(response.status);
    return response.text();
  }

  const parse = (html) => new DOMParser().parseFromString(html, "text/html");

  function every(refresh, isEnabled, report) {
    let loading = false;
    setInterval(async () => {
      if (loading || document.hidden || !isEnabled()) return;
      loading = true;
      try {
        await refresh();
      } catch (error) {
        report(`This page could not be refreshed (${error.message}).`);
      }
      loading = false;
    }, INTERVAL);
  }

  // The overview. Elements are updated in place, so that they keep the focus and their state.
  function refreshOverview(overview) {
    const stale = document.getElementById("stale");
    const report = (text) => {
      stale.textContent = text;
      stale.hidden = !text;
    };
    const refresh = async () => {
      update(overview, parse(await load(location.href)).getElementById("overview"));
      document.dispatchEvent(new Event("refreshed"));
      report("");
    };
    every(refresh, () => true, report);
  }

  function update(element, newer) {
    if (element.classList.contains("chart")) return; // drawn by a script, from its table
    for (const { name } of [...element.attributes, ...newer.attributes]) {
      const value = newer.getAttribute(name);
      if (name === "open" || name === "title" || value === element.getAttribute(name)) continue;
      value === null ? element.removeAttribute(name) : element.setAttribute(name, value);
    }
    const nodes = [...element.childNodes], newNodes = [...newer.childNodes];
    nodes.slice(newNodes.length).forEach((node) => node.remove());
    newNodes.forEach((newNode, n) => {
      const node = nodes[n];
      if (node?.nodeName !== newNode.nodeName) node ? node.replaceWith(newNode) : element.append(newNode);
      else if (newNode.nodeType === Node.ELEMENT_NODE) update(node, newNode);
      else if (node.data !== newNode.data) node.data = newNode.data;
    });
  }

  // The list of notifications. New rows are inserted by their id.
  function refreshList(live, rows) {
    const checkbox = Object.assign(document.createElement("input"), { type: "checkbox", checked: true });
    const label = Object.assign(document.createElement("label"), { className: "check" });
    const status = document.createElement("span");
    label.append(checkbox, "Live: refresh every five seconds");
    live.replaceChildren(label, status);

    const id = (row) => Number(row.dataset.id);
    // Each refresh also reads the rows of the previous one, because a notification that is committed
    // late has a lower id than those that are listed already.
    let after = rows.lastElementChild?.dataset.id ?? rows.dataset.last;

    const refresh = async () => {
      const query = new URLSearchParams(live.dataset.live);
      query.set("rows", after);
      const newer = parse(`<table>${await load(`?${query}`)}</table>`).getElementById("rows");
      after = rows.dataset.last;
      rows.dataset.last = newer.dataset.last;
      const existing = new Set([...rows.rows].map(id));
      insert([...newer.rows].filter((row) => !existing.has(id(row))));
    };

    function insert(added) {
      if (!added.length) return;
      // After a full page, others may be missing: the rows below would not be contiguous.
      if (added.length === Number(rows.dataset.pageSize)) rows.replaceChildren();
      for (const row of added) {
        row.className = "new";
        rows.insertBefore(row, [...rows.rows].find((each) => id(each) < id(row)) ?? null);
      }
      while (rows.children.length > MAX_ROWS) rows.lastElementChild.remove();
      document.getElementById("nothing")?.remove();
      status.textContent = `${added.length} new at ${new Date().toISOString().slice(11, 19)}Z`;
    }

    every(refresh, () => checkbox.checked, (text) => { status.textContent = text; });
  }

  const overview = document.getElementById("overview"), live = document.querySelector("[data-live]");
  if (overview) refreshOverview(overview);
  if (live) refreshList(live, document.getElementById("rows"));
})();
