// Images of values: their dimensions, and an overlay. Without this script links open the images, and dimensions are not shown.
// All markup comes from the server.
"use strict";

/** Shows the dimensions of a loaded image. */
function measure(picture) {
  const place = picture.closest?.(".medium")?.querySelector(".pixels");
  const { naturalWidth: width, naturalHeight: height } = picture;
  if (place && 0 < width) place.textContent = `${width} × ${height} px`;
}

/** Shows an image in an overlay: fitted to the window, or in full size. */
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
// The load event of an image does not bubble.
document.addEventListener("load", (event) => measure(event.target), true);
for (const picture of document.querySelectorAll(".medium img")) measure(picture);
