"use strict";

// The replay of all parked notifications that match: each request replays a part of them, and the
// page shows the result and sends the next request until the end, or until the user stops it.
(() => {
  const region = () => document.getElementById("replay");

  async function replay(form) {
    const body = new URLSearchParams(new FormData(form, form.querySelector("button")));
    // The property `action` is the button, which has this name.
    const url = form.getAttribute("action");
    const response = await fetch(url, { method: "POST", body, redirect: "error" });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    if (!response.ok) throw new Error(page.querySelector(".notice")?.textContent ?? response.status);
    return page;
  }

  function show(text, isBad) {
    const notice = document.createElement("p");
    notice.className = isBad ? "notice bad" : "notice";
    notice.setAttribute("role", "status");
    notice.textContent = text;
    region().querySelector(".notice")?.remove();
    region().prepend(notice);
  }

  document.getElementById("main").addEventListener("submit", async (event) => {
    if (event.target.method !== "post") return;
    event.preventDefault();
    const shown = event.target, main = document.getElementById("main");
    const stop = Object.assign(document.createElement("button"), { type: "button", textContent: "Stop" });
    let stopped = false, form = shown;
    stop.addEventListener("click", () => { stopped = true; });
    shown.hidden = true;
    shown.after(stop);
    stop.focus();
    try {
      for (;;) {
        const page = await replay(form);
        form = page.querySelector("#replay form[data-continues]");
        if (!form || stopped) {
          main.replaceChildren(...page.getElementById("main").children);
          main.focus();
          return;
        }
        show(page.querySelector("#replay .notice").textContent);
      }
    } catch (error) {
      show(`The replay stopped: ${error.message}`, true);
      stop.remove();
      shown.hidden = false;
    }
  });
})();
