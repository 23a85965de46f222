// What came since the page was made: a bar says so, and the rows stay where they are until somebody asks for them.

const bar = document.getElementById("news");
const EVERY = 10_000;
const AT_MOST = 300_000;

let pause = EVERY;
let next = 0;
let isOver = false;

async function ask() {
  const answer = await fetch(bar.dataset.from, { headers: { accept: "text/html" } }).catch(() => null);
  // The session has run out, or the page is no longer there: its next link says so.
  if (answer && (answer.redirected || (answer.status >= 400 && answer.status < 500 && answer.status !== 429))) {
    isOver = true;
    return;
  }
  const html = answer?.ok ? await answer.text().catch(() => null) : null;
  pause = html === null ? Math.min(2 * pause, AT_MOST) : EVERY;
  // An answer with the same words is not read out again.
  if (html !== null && html.trim() !== bar.innerHTML.trim()) bar.innerHTML = html;
  plan();
}

function plan() {
  clearTimeout(next);
  if (!document.hidden && !isOver) next = setTimeout(ask, pause);
}

document.addEventListener("visibilitychange", plan);
bar.addEventListener("click", (event) => {
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  if (link?.href !== location.href) return;
  // A browser need not open the address again that it is at.
  event.preventDefault();
  location.reload();
});
plan();
