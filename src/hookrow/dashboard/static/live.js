"use strict";

// The list of notifications: asks every five seconds for what is newer, while the page is seen.
(() => {
  const EVERY = 5000, PAGE = 50, MOST = 200;
  const rows = document.getElementById("rows"), live = document.querySelector("[data-live]");
  if (!rows || !live) return;

  const told = document.createElement("span");
  const label = document.createElement("label");
  const box = document.createElement("input");
  box.type = "checkbox";
  box.checked = true;
  label.className = "check";
  label.append(box, "Live: look every five seconds");
  live.replaceChildren(label, told);

  // What is committed late has a lower id than what was seen: it is asked for once more.
  let settled = rows.lastElementChild?.dataset.id ?? rows.dataset.seen;

  async function look() {
    if (!box.checked || document.hidden) return;
    const query = new URLSearchParams(live.dataset.live);
    query.set("rows", settled);
    try {
      const answer = await fetch(`./notifications?${query}`, { redirect: "error" });
      if (!answer.ok) throw new Error(answer.status);
      show(new DOMParser().parseFromString(`<table>${await answer.text()}</table>`, "text/html"));
    } catch (error) {
      told.textContent = `The list could not be brought up to date (${error.message}).`;
    }
  }

  const id = (row) => Number(row.dataset.id);

  function show(page) {
    const newer = page.getElementById("rows");
    settled = rows.dataset.seen;
    rows.dataset.seen = newer.dataset.seen;
    const shown = new Set([...rows.rows].map(id));
    const found = [...newer.rows].filter((row) => !shown.has(id(row)));
    if (!found.length) return;
    // A whole page may not be all that came: what is below it would not follow on.
    if (found.length === PAGE) rows.replaceChildren();
    for (const row of found) {
      row.className = "new";
      rows.insertBefore(row, [...rows.rows].find((each) => id(each) < id(row)) ?? null);
    }
    while (rows.children.length > MOST) rows.lastElementChild.remove();
    document.getElementById("nothing")?.remove();
    told.textContent = `${found.length} new at ${new Date().toISOString().slice(11, 19)}Z`;
  }

  setInterval(look, EVERY);
})();
