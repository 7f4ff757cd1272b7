// What every page gets. All of it makes something better that works without it.
import "./zone.js";
import "./theme.js";
import "./copy.js";
import "./menus.js";
import "./focus.js";

document.documentElement.classList.add("js");
