// A search that stopped before it found anything goes on by itself, part by part, and says how far it came. The first part with
// rows is opened, or the last one. It stays where it is when the reader looks elsewhere, presses Escape or takes the link.

const notice = document.querySelector("[data-onward]");
const link = notice.querySelector("a");
const said = notice.querySelector("span");
let n = Number(notice.dataset.onward);
let isOver = false;

async function part(href) {
  const answer = await fetch(href, { headers: { accept: "text/html" } }).catch(() => null);
  if (!answer?.ok || answer.redirected) return null;
  return new DOMParser().parseFromString(await answer.text(), "text/html");
}

async function onward() {
  let isCut = false;
  while (!isOver && !document.hidden) {
    said.textContent = `${n.toLocaleString("en")} ${notice.dataset.rows} looked at, none found so far; searching on.`;
    const page = await part(link.href);
    if (page === null) isCut = true;
    if (isCut || isOver) break;
    const next = page.querySelector("[data-onward]");
    if (next === null) {
      location.replace(link.href);
      return;
    }
    n += Number(next.dataset.onward);
    link.href = next.querySelector("a").href;
  }
  const why = isCut ? "The server did not answer" : "The search stopped";
  said.textContent = `${why}: ${n.toLocaleString("en")} ${notice.dataset.rows} looked at, none found so far.`;
}

link.addEventListener("click", () => { isOver = true; });
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") isOver = true;
});
onward();
