// Column widths of lists: changed by dragging the end of a heading or by arrow keys on it, and stored in the browser by list
// and column. Headings of a list that fits its container are sticky. Without this script columns have their default widths.
"use strict";

const [LEAST, MOST] = [48, 1200];
const STEP = 16;

function kept(list) {
  try {
    return JSON.parse(localStorage.getItem(list)) ?? {};
  } catch {
    // Storage is blocked, or its content is not JSON: all columns have their default widths.
    return {};
  }
}

function keep(list, widths) {
  try {
    localStorage.setItem(list, JSON.stringify(widths));
  } catch {
    // Storage is blocked.
  }
}

function ofTable(table) {
  const list = `widths ${table.dataset.list}`;
  const widths = kept(list);
  const sheet = new CSSStyleSheet();
  const heads = Array.from(table.tHead.rows[0].cells, (cell) => ({ cell, label: cell.textContent.trim(), name: cell.dataset.column ?? cell.textContent.trim() }));

  function show() {
    const rules = heads.flatMap(({ name }, at) => {
      const width = widths[name];
      if (!(LEAST <= width && width <= MOST)) return [];
      const of = (part) => `table[data-list="${table.dataset.list}"] > ${part} > tr > :nth-child(${at + 1})`;
      return `${of("*")} { width: ${width}px; min-width: ${width}px; max-width: ${width}px; }
        ${of("tbody")} { overflow: clip; overflow-clip-margin: 4px; text-overflow: ellipsis; }`;
    });
    // The card layout has no columns.
    sheet.replaceSync(`@container list (min-width: 64.01rem) { ${rules.join("\n")} }`);
    for (const grip of grips) grip.ariaValueNow = String(grip.parentElement.offsetWidth);
  }

  /** Sets the width in pixels, or the default width if none is given. */
  function setWidth(name, width) {
    // Another tab may have stored other widths meanwhile.
    Object.assign(widths, kept(list));
    widths[name] = width && Math.min(MOST, Math.max(LEAST, Math.round(width)));
    show();
    keep(list, widths);
  }

  /** One grip is in the Tab order; arrow keys up and down reach the others. */
  function focus(grip) {
    for (const other of grips) other.tabIndex = other === grip ? 0 : -1;
    grip.focus();
  }

  function gripOf({ cell, label, name }) {
    const grip = document.createElement("span");
    grip.className = "grip";
    grip.role = "separator";
    grip.tabIndex = -1;
    grip.ariaOrientation = "vertical";
    grip.ariaLabel = `Width of ${label}`;
    grip.title = "Drag, or use the arrow keys; Delete resets the width";
    grip.ariaValueMin = String(LEAST);
    grip.ariaValueMax = String(MOST);
    // The grip is wider than the column border, which keeps its distance from the pointer.
    let off = 0;
    const onMove = (event) => setWidth(name, event.clientX + off - cell.getBoundingClientRect().left);
    grip.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      grip.setPointerCapture(event.pointerId);
      off = cell.getBoundingClientRect().right - event.clientX;
      grip.addEventListener("pointermove", onMove);
      event.preventDefault();
      focus(grip);
    });
    for (const end of ["pointerup", "pointercancel"]) {
      grip.addEventListener(end, () => grip.removeEventListener("pointermove", onMove));
    }
    grip.addEventListener("dblclick", () => setWidth(name));
    grip.addEventListener("keydown", (event) => {
      const at = grips.indexOf(grip);
      switch (event.key) {
        case "ArrowLeft": setWidth(name, cell.offsetWidth - STEP); break;
        case "ArrowRight": setWidth(name, cell.offsetWidth + STEP); break;
        case "Delete": setWidth(name); break;
        case "ArrowUp": focus(grips[Math.max(0, at - 1)]); break;
        case "ArrowDown": focus(grips[Math.min(grips.length - 1, at + 1)]); break;
        default: return;
      }
      event.preventDefault();
      event.stopPropagation();
    });
    // Otherwise screen readers add the label of the grip to the name of the column.
    cell.ariaLabel = label;
    cell.append(grip);
    return grip;
  }

  const grips = heads.filter(({ label }) => label !== "").map(gripOf);
  grips[0].tabIndex = 0;
  document.adoptedStyleSheets.push(sheet);
  show();

  // Headings are not sticky inside a scrolling box, so that a box scrolls only if necessary.
  const box = table.parentElement;
  const observer = new ResizeObserver(() => {
    const fits = table.offsetWidth <= box.clientWidth;
    box.classList.toggle("fits", fits);
    // Focused elements are not hidden below the bar of the page and the headings.
    const bar = document.querySelector(".framed > .top");
    const barHeight = bar && getComputedStyle(bar).position === "sticky" ? bar.offsetHeight : 0;
    const heads = Array.from(document.querySelectorAll(".fits > table > thead"), (head) => head.offsetHeight);
    document.documentElement.style.scrollPaddingTop = heads.length > 0 ? `${barHeight + Math.max(...heads) + 8}px` : "";
  });
  observer.observe(box);
  observer.observe(table);
}

for (const table of document.querySelectorAll("table[data-list]")) ofTable(table);
