// Pictures of values: how large they are, and one over the page. Without this script their links open them, and their
// measures are not told. Markup comes from the server alone.
"use strict";

/** Writes down how large a picture is, once it is there: only its bytes tell. */
function measure(picture) {
  const place = picture.closest?.(".medium")?.querySelector(".pixels");
  const { naturalWidth: width, naturalHeight: height } = picture;
  if (place && 0 < width) place.textContent = `${width} × ${height} px`;
}

/** A picture over the page: as large as fits there, or in its full size. */
function zoom(event) {
  const link = event.target instanceof Element ? event.target.closest("a[data-zooms]") : null;
  if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const dialog = document.getElementById("zoom");
  const full = dialog.querySelector("[aria-pressed]");
  const picture = link.querySelector("img").cloneNode();
  const turn = () => full.setAttribute("aria-pressed", String(picture.classList.toggle("whole")));
  full.setAttribute("aria-pressed", "false");
  full.onclick = turn;
  picture.onclick = turn;
  dialog.querySelector("a").href = link.href;
  dialog.querySelector("p").replaceChildren(picture);
  dialog.showModal();
}

document.addEventListener("click", zoom);
// The event of a picture that has come does not rise to the elements around it.
document.addEventListener("load", (event) => measure(event.target), true);
for (const picture of document.querySelectorAll(".medium img")) measure(picture);
