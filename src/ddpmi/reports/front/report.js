// Start the page with the rows that it holds.

const held = JSON.parse(document.getElementById("data").textContent);
// A page without findings has no place for views.
if (held.meta.held > 0) {
  const page = new Explorer(document.getElementById("explore"), new HeldRows(held));
  document.documentElement.dataset.ready = String(page.views.length);
}
