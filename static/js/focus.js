// After a form came back with problems, the reader is led to them.
document.addEventListener("htmx:after:swap", () => {
  const summary = document.getElementById("problems-summary");
  if (summary && !summary.dataset.seen) {
    summary.dataset.seen = "yes";
    summary.focus();
    summary.scrollIntoView({ block: "nearest" });
  }
});
