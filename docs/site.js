// A table that is wider than the page scrolls by keys, too.
addEventListener("load", () => {
  for (const wrap of document.querySelectorAll(".md-typeset__scrollwrap")) wrap.tabIndex = 0;
  // A page with many of these has no landmarks to choose from.
  for (const nav of document.querySelectorAll(".md-code__nav")) nav.role = "none";
});
// A search divides Chinese from Latin letters, as its index does.
const { postMessage } = Worker.prototype;
Worker.prototype.postMessage = function (message) {
  const cut = (text) => text.replace(/(?<=\p{sc=Han})(?=[\w.-])|(?<=[\w.-])(?=\p{sc=Han})/gu, " ");
  postMessage.call(this, message.type === 2 ? { ...message, data: cut(message.data) } : message);
};
// A page is fetched while the pointer is on its link.
const rules = document.createElement("script");
rules.type = "speculationrules";
const prefetch = [{ where: { href_matches: "/*" }, eagerness: "moderate" }];
rules.textContent = JSON.stringify({ prefetch });
document.head.append(rules);
