// On every page: times in the reader's zone. The server writes UTC; only the text of what is there changes, and UTC stays
// one look away.
"use strict";

const two = (n) => String(n).padStart(2, "0");

const dayOf = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
const clockOf = (at) => [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");

function localTime(time) {
  const at = new Date(time.dateTime);
  // A date without a time of day is a day of UTC.
  if (Number.isNaN(at.getTime()) || time.title || time.dateTime.length === 10) return;
  const said = time.textContent.trim();
  // A time of today has no date.
  const isNear = /^\d\d:/.test(said);
  time.title = said.endsWith("UTC") ? said : `${isNear ? `${at.toISOString().slice(0, 10)} ` : ""}${said} UTC`;
  const part = /:\d\d(\.\d+)/.exec(said)?.[1] ?? "";
  const clock = `${clockOf(at)}${part}`;
  const isToday = time.nextElementSibling?.matches(".ago") && at.toDateString() === new Date().toDateString();
  const whole = isToday ? clock : `${dayOf(at)} ${clock}`;
  time.textContent = said.endsWith("UTC") ? `${whole} ${zoneOf(at)}` : whole;
}

let zones;

/** The name of the zone then: summer time has another one. */
function zoneOf(at) {
  zones ??= new Intl.DateTimeFormat("en", { timeZoneName: "short" });
  return zones.formatToParts(at).find((part) => part.type === "timeZoneName")?.value ?? "";
}

// Times are typed in the zone of those that are shown; an address has the instant.
const TYPED = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?))?$/;

/** What was typed without a zone, as an instant; all else as it is. */
function instantOf(text) {
  const [, day, clock = "00:00"] = TYPED.exec(text.trim()) ?? [];
  const at = new Date(`${day}T${clock}`);
  return Number.isNaN(at.getTime()) ? text : at.toISOString().replace(".000Z", "Z");
}

/** An instant as it would be typed; all else as it is. */
function typedOf(text) {
  const at = new Date(text.endsWith(":00Z") ? text : NaN);
  return Number.isNaN(at.getTime()) ? text : `${dayOf(at)} ${clockOf(at).slice(0, 5)}`;
}

document.addEventListener("formdata", ({ target, formData }) => {
  if (preferred.zone !== "browser" || preferred.times === "utc" || !target.matches(".focus form")) return;
  for (const name of ["from", "to"]) formData.set(name, instantOf(formData.get(name) ?? ""));
});

/** Headings say in which zone the times below them are, and fields in which one they are typed. */
function nameZone(root, from, to) {
  for (const head of root.querySelectorAll("th, :is(.picks, .when) label")) {
    // The text alone: what is around it may be a link that orders the list.
    const text = (head.querySelector("a, bdi") ?? head).firstChild;
    if (text instanceof Text && text.data.endsWith(`, ${from}`)) text.data = text.data.slice(0, -from.length) + to;
    for (const named of [head, head.querySelector(".grip")]) {
      if (named?.ariaLabel?.endsWith(`, ${from}`)) named.ariaLabel = named.ariaLabel.slice(0, -from.length) + to;
    }
  }
  for (const field of root.querySelectorAll(".when input[name]")) field.value = (to === "UTC" ? instantOf : typedOf)(field.value);
  for (const place of root.querySelectorAll("span[data-zone]")) place.textContent = to === "UTC" ? to : zoneOf(new Date());
  // Where rows are cards, each cell has its heading.
  for (const cell of root.querySelectorAll(`[data-label$=", ${from}"]`)) {
    cell.dataset.label = cell.dataset.label.slice(0, -from.length) + to;
  }
}

function localTimes(root) {
  if (!(root instanceof Element) || preferred.times === "utc") return;
  for (const time of root.querySelectorAll("time[datetime]")) localTime(time);
  // No wider than a time, so that no column moves.
  nameZone(root, "UTC", "local");
}

// [shorter than, divided by, unit], in seconds: as the server says it.
const UNITS = [[60, 1, "s"], [3600, 60, "min"], [172800, 3600, "h"], [5184000, 86400, "days"], [63072000, 2592000, "months"], [Infinity, 31536000, "years"]];

/** How long ago things were, while a page stays open. */
function tellAges() {
  for (const place of document.querySelectorAll("time + .ago")) {
    const seconds = Math.floor((Date.now() - Date.parse(place.previousElementSibling.dateTime)) / 1000);
    const [, length, unit] = UNITS.find(([end]) => seconds < end);
    const said = `${Math.floor(seconds / length)} ${unit} ago`;
    if (seconds >= 0 && place.textContent !== said) place.textContent = said;
  }
}

setInterval(tellAges, 60_000);

if (preferred.zone === "browser") {
  localTimes(document.body);
  // Parts of pages are fetched later.
  new MutationObserver((changes) => {
    for (const change of changes) change.addedNodes.forEach(localTimes);
  }).observe(document.body, { childList: true, subtree: true });
}
