"use strict";

// The overview: asks every five seconds for itself, while it is seen, and takes over what differs.
(() => {
  const EVERY = 5000;
  const fresh = document.getElementById("fresh"), stale = document.getElementById("stale");
  if (!fresh) return;

  let asking = false;

  async function look() {
    if (asking || document.hidden) return;
    asking = true;
    try {
      const answer = await fetch(location.href, { redirect: "error" });
      if (!answer.ok) throw new Error(answer.status);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      take(fresh, page.getElementById("fresh"));
      document.dispatchEvent(new Event("fresh"));
      stale.hidden = true;
    } catch (error) {
      stale.textContent = `What is below could not be brought up to date (${error.message}).`;
      stale.hidden = false;
    }
    asking = false;
  }

  // Elements stay, and with them the focus and what was opened; what a script has drawn, too.
  function take(old, now) {
    if (old.dataset.drawn !== undefined) return;
    for (const { name } of [...old.attributes, ...now.attributes]) {
      const value = now.getAttribute(name);
      if (name === "open" || value === old.getAttribute(name)) continue;
      value === null ? old.removeAttribute(name) : old.setAttribute(name, value);
    }
    const before = [...old.childNodes], after = [...now.childNodes];
    before.slice(after.length).forEach((node) => node.remove());
    after.forEach((node, n) => {
      const there = before[n];
      if (there?.nodeName !== node.nodeName) there ? there.replaceWith(node) : old.append(node);
      else if (node.nodeType === Node.ELEMENT_NODE) take(there, node);
      else if (there.data !== node.data) there.data = node.data;
    });
  }

  setInterval(look, EVERY);
})();
