// Buttons that copy the text in their data-copy.
async function copy(text) {
  // The clipboard is only there on https and localhost; a console on a LAN is neither.
  if (navigator.clipboard && isSecureContext) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "sr-only";
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const label = button.getAttribute("aria-label");
  try {
    await copy(button.dataset.copy);
  } catch {
    return;
  }
  button.focus();
  button.classList.add("is-copied");
  button.setAttribute("aria-label", "Copied");
  setTimeout(() => {
    button.classList.remove("is-copied");
    button.setAttribute("aria-label", label);
  }, 1500);
});
