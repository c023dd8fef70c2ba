"use strict";

// Times are in UTC; their title is the local time of the browser.
document.addEventListener("pointerover", (event) => {
  const time = event.target.closest?.("time[datetime]");
  if (time) time.title = `${new Date(time.dateTime).toLocaleString()} (local time)`;
});
