"use strict";
// What is too wide for the window can be scrolled without a mouse: it is a stop of the Tab key.
function markScrollable() {
  for (const box of document.querySelectorAll("pre, .table-wrapper")) {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", box.tagName === "PRE" ? "code" : "table");
    }
  }
}
document.addEventListener("DOMContentLoaded", markScrollable);
window.addEventListener("resize", markScrollable);
