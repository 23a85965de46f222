// The trace page: folding and keyboard of the tree, and steps opened in place. Without this script
// every row is a plain link and the tree stands open.
"use strict";

const tree = document.querySelector("[role=tree]");
const pane = document.getElementById("detail");

function rows() {
  return Array.from(tree.querySelectorAll("[role=treeitem]:not([hidden])"));
}

function depth(row) {
  return Number(row.getAttribute("aria-level"));
}

function setOpen(row, open) {
  if (!row.hasAttribute("aria-expanded")) return;
  row.setAttribute("aria-expanded", String(open));
  // Rows below stay hidden while any row between them and this one is closed.
  let closedAt = open ? Infinity : depth(row);
  for (let next = row.nextElementSibling; next && depth(next) > depth(row); next = next.nextElementSibling) {
    const level = depth(next);
    if (level <= closedAt) closedAt = Infinity;
    next.hidden = level > closedAt || !open;
    if (open && closedAt === Infinity && next.getAttribute("aria-expanded") === "false") closedAt = level;
  }
}

function focus(row) {
  if (!row) return;
  tree.querySelectorAll("[role=treeitem][tabindex='0']").forEach((old) => { old.tabIndex = -1; });
  row.tabIndex = 0;
  row.focus();
}

function parent(row) {
  let before = row.previousElementSibling;
  while (before && depth(before) >= depth(row)) before = before.previousElementSibling;
  return before;
}

async function open(row, push) {
  const address = new URL(row.href);
  const path = location.pathname.replace("/traces/", "/_/traces/") + "/detail" + address.search;
  const answer = await fetch(path, { headers: { accept: "text/html" } }).catch(() => null);
  // Anything unusual, such as a session that has run out, is the whole page's business.
  if (!answer || !answer.ok || answer.redirected) {
    location.href = row.href;
    return;
  }
  pane.innerHTML = await answer.text();
  pane.scrollTop = 0;
  tree.querySelectorAll("[aria-selected=true]").forEach((old) => old.setAttribute("aria-selected", "false"));
  row.setAttribute("aria-selected", "true");
  if (push) history.pushState(null, "", row.href);
}

function onClick(event) {
  const row = event.target.closest("[role=treeitem]");
  if (!row || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  if (event.target.closest(".fold") && row.hasAttribute("aria-expanded")) {
    setOpen(row, row.getAttribute("aria-expanded") === "false");
    return;
  }
  focus(row);
  open(row, true);
}

function onKey(event) {
  const row = event.target.closest("[role=treeitem]");
  if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
  const all = rows();
  const at = all.indexOf(row);
  const expanded = row.getAttribute("aria-expanded");
  switch (event.key) {
    case "ArrowDown": focus(all[at + 1]); break;
    case "ArrowUp": focus(all[at - 1]); break;
    case "Home": focus(all[0]); break;
    case "End": focus(all[all.length - 1]); break;
    case "ArrowRight":
      if (expanded === "false") setOpen(row, true);
      else if (expanded === "true") focus(all[at + 1]);
      break;
    case "ArrowLeft":
      if (expanded === "true") setOpen(row, false);
      else focus(parent(row));
      break;
    case " ": open(row, true); break;
    default: return;
  }
  event.preventDefault();
}

if (tree && pane) {
  tree.addEventListener("click", onClick);
  tree.addEventListener("keydown", onKey);
  tree.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  if (!tree.querySelector("[tabindex='0']")) tree.querySelector("[role=treeitem]").tabIndex = 0;
  addEventListener("popstate", () => {
    const row = rows().find((candidate) => candidate.href === location.href);
    if (row) open(row, false);
    else location.reload();
  });
}
