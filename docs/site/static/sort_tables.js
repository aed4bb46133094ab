"use strict";
// Tables of the class `sortable`: a press on a heading sorts by its column, another one turns it round.

// What a cell is worth: its figure, or its text.
function cellValue(row, column) {
  const cell = row.cells[column];
  const text = cell.dataset.value ?? cell.textContent;
  const number = Number(text);
  return text.trim() !== "" && !Number.isNaN(number) ? number : text;
}

// Figures before texts, and a dash last, whichever way it goes.
function compareCells(one, other, sign) {
  if ((one === "–") !== (other === "–")) return one === "–" ? 1 : -1;
  if (typeof one !== typeof other) return typeof one === "number" ? -1 : 1;
  return sign * (typeof one === "number" ? one - other : one.localeCompare(other));
}

function sortTable(table, column) {
  const heads = [...table.tHead.rows[0].cells];
  const sign = heads[column].getAttribute("aria-sort") === "ascending" ? -1 : 1;
  heads.forEach((head) => head.removeAttribute("aria-sort"));
  heads[column].setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
  const rows = [...table.tBodies[0].rows].map((row) => [cellValue(row, column), row]);
  rows.sort((a, b) => compareCells(a[0], b[0], sign)); // stable: equal ones stay as they were
  table.tBodies[0].append(...rows.map(([, row]) => row));
}

document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.addEventListener("click", () => sortTable(table, column));
      head.replaceChildren(button);
    });
  }
});
