"use strict";

// The list of notifications: asks every five seconds for what is newer, while the page is seen.
(() => {
  const EVERY = 5000, MOST = 200;
  const rows = document.getElementById("rows"), live = document.querySelector("[data-live=yes]");
  if (!rows || !live) return;

  const told = document.createElement("span");
  const label = document.createElement("label");
  const box = document.createElement("input");
  box.type = "checkbox";
  box.checked = true;
  label.className = "check";
  label.append(box, "Live: look every five seconds");
  live.replaceChildren(label, told);

  const last = () => rows.firstElementChild?.dataset.id ?? "0";

  async function look() {
    if (!box.checked || document.hidden) return;
    const query = new URLSearchParams(rows.dataset.query);
    query.set("after", last());
    query.set("rows", "1");
    try {
      const answer = await fetch(`./notifications?${query}`);
      if (!answer.ok) throw new Error(answer.status);
      show(new DOMParser().parseFromString(`<table>${await answer.text()}</table>`, "text/html"));
    } catch (error) {
      told.textContent = `The list could not be brought up to date (${error.message}).`;
    }
  }

  function show(page) {
    const found = [...page.querySelectorAll("tr")];
    if (!found.length) return;
    for (const row of found) row.className = "new";
    rows.prepend(...found);
    while (rows.children.length > MOST) rows.lastElementChild.remove();
    document.getElementById("nothing")?.remove();
    told.textContent = `${found.length} new at ${new Date().toISOString().slice(11, 19)}Z`;
  }

  setInterval(look, EVERY);
})();
