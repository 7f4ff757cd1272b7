// Changes the theme without a new page; without this the form does it.
import { setCookie } from "./cookie.js";

const root = document.documentElement;

function tell() {
  document.dispatchEvent(new CustomEvent("theme:change"));
}

document.addEventListener("submit", (event) => {
  const form = event.target.closest("[data-theme-form]");
  if (!form || !event.submitter) return;
  event.preventDefault();
  const theme = event.submitter.value;
  setCookie("theme", theme);
  if (theme === "system") root.removeAttribute("data-theme");
  else root.dataset.theme = theme;
  for (const button of form.querySelectorAll("button[name=theme]")) {
    button.setAttribute("aria-pressed", String(button === event.submitter));
  }
  tell();
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
