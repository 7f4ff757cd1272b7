// Which lines are switched off is part of the address, so that a link shows what
// its sender saw.
const parameter = "hide";

export function hiddenIn(search) {
  return new Set((new URLSearchParams(search).get(parameter) ?? "").split(",").filter(Boolean));
}

function withHidden(address, hidden) {
  const url = new URL(address, location.href);
  if (hidden.length) url.searchParams.set(parameter, hidden.join(","));
  else url.searchParams.delete(parameter);
  return url;
}

// remember puts a legend's selection into this page's address and into the links
// that lead to other views of it. Connected charts tell the same change one by one,
// each about its own lines only.
export function remember(selected) {
  const hidden = hiddenIn(location.search);
  for (const [name, on] of Object.entries(selected)) {
    if (on) hidden.delete(name);
    else hidden.add(name);
  }
  const names = [...hidden].sort();
  history.replaceState(history.state, "", withHidden(location.href, names));
  for (const link of document.querySelectorAll("a[data-chart-state]")) {
    link.href = withHidden(link.href, names);
  }
}
