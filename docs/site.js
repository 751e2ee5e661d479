// A table that is wider than the page scrolls by keys, too.
addEventListener("load", () => {
  for (const wrap of document.querySelectorAll(".md-typeset__scrollwrap")) wrap.tabIndex = 0;
  // A page with many of these has no landmarks to choose from.
  for (const nav of document.querySelectorAll(".md-code__nav")) nav.role = "none";
});
