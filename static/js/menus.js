// Folded menus close when something else is clicked, and on Escape.
const open = () => document.querySelectorAll("details.menu-fold[open], details.user-menu[open]");

document.addEventListener("click", (event) => {
  for (const menu of open()) {
    const insideSheet = event.target.closest(".menu-sheet");
    if (!menu.contains(event.target) || (insideSheet && event.target.closest("[popovertarget]"))) menu.open = false;
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of open()) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});
