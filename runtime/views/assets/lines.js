// Line numbers next to source in a text area. Without this script the text area works alone.
"use strict";

function draw(area, numbers) {
  const n = area.value.split("\n").length;
  if (numbers.dataset.n !== String(n)) {
    numbers.dataset.n = String(n);
    numbers.textContent = Array.from({ length: n }, (_, at) => at + 1).join("\n");
  }
  numbers.scrollTop = area.scrollTop;
}

function number(area) {
  const numbers = document.createElement("pre");
  numbers.setAttribute("aria-hidden", "true");
  area.before(numbers);
  area.parentElement.classList.add("numbered");
  for (const name of ["input", "scroll"]) area.addEventListener(name, () => draw(area, numbers));
  draw(area, numbers);
}

/** The text areas without numbers; a sent form is replaced in place. */
function numberAll() {
  for (const area of document.querySelectorAll("[data-lines]:not(.numbered) > textarea")) number(area);
}

numberAll();
new MutationObserver(numberAll).observe(document.getElementById("main"), { childList: true, subtree: true });
