"use strict";

// Live updates: the overview and the list of notifications are refreshed every five seconds while
// the page is visible.
(() => {
  const INTERVAL = 5000, TIMEOUT = 10000, MAX_ROWS = 200;

  const parse = (html) => new DOMParser().parseFromString(html, "text/html");

  const utc = () => new Date().toISOString().slice(11, 19) + "Z";

  async function read(url) {
    const controller = new AbortController(), { signal } = controller;
    const timer = setTimeout(() => controller.abort(), TIMEOUT);
    try {
      const response = await fetch(url, { redirect: "manual", signal });
      return [response, await response.text()];
    } catch {
      const late = `the server does not respond within ${TIMEOUT / 1000} seconds`;
      throw new Error(signal.aborted ? late : "the server cannot be reached");
    } finally {
      clearTimeout(timer);
    }
  }

  // Return an element of a page, and show the status that the page has, as an error page does, too.
  async function load(url, id) {
    const [response, text] = await read(url);
    const another = "the server responds with another page, such as a login; reload this page";
    if (response.type === "opaqueredirect") throw new Error(another);
    const page = parse(text);
    const state = page.getElementById("state");
    if (state) update(document.getElementById("state"), state);
    const reason = page.getElementById("error")?.textContent.trim();
    if (response.status === 401) throw new Error("401: your login is not valid any more; reload this page");
    if (!response.ok) throw new Error(reason ? `${response.status}: ${reason}` : `the response is ${response.status}`);
    const element = page.getElementById(id);
    if (!element) throw new Error(another);
    return element;
  }

  // The page is greyed out while it is not up to date.
  function every(refresh, isEnabled) {
    const stale = Object.assign(document.createElement("p"), { className: "notice bad", id: "stale", hidden: true });
    document.getElementById("main").before(stale);
    let loading = false, last = utc();
    setInterval(async () => {
      if (loading || document.hidden || !isEnabled()) return;
      loading = true;
      try {
        await refresh();
        last = utc();
        stale.hidden = true;
      } catch (error) {
        const text = `This page could not be refreshed since ${last}: ${error.message}`;
        if (stale.textContent !== text) stale.textContent = text;
        stale.hidden = false;
      }
      document.body.classList.toggle("stale", !stale.hidden);
      loading = false;
    }, INTERVAL);
  }

  // The overview. Elements are updated in place, so that they keep the focus and their state.
  function refreshOverview(overview) {
    const refresh = async () => {
      update(overview, await load(location.href, "overview"));
      document.dispatchEvent(new Event("refreshed"));
    };
    every(refresh, () => true);
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
      const newer = await load(`?${query}`, "rows");
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
      status.textContent = `${added.length} new at ${utc()}`;
    }

    every(refresh, () => checkbox.checked);
  }

  const overview = document.getElementById("overview"), live = document.querySelector("[data-live]");
  if (overview) refreshOverview(overview);
  if (live) refreshList(live, document.getElementById("rows"));
})();
