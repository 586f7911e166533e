// Draws the diagrams of a page, with a copy of Mermaid beside this file. Without it (it comes from npm, see make/docs)
// a page shows how they are written. Nothing is loaded from other hosts.
const diagrams = document.querySelectorAll("pre.diagram");
if (diagrams.length > 0) {
  const script = document.createElement("script");
  script.src = new URL("mermaid.min.js", document.currentScript.src).href;
  script.onload = async () => {
    const isDark = document.body.dataset.mdColorScheme === "slate";
    window.mermaid.initialize({ startOnLoad: false, securityLevel: "strict", theme: isDark ? "dark" : "neutral", flowchart: { useMaxWidth: false } });
    for (const [number, block] of diagrams.entries()) {
      const { svg } = await window.mermaid.render(`diagram-${number}`, block.textContent);
      const drawn = document.createElement("figure");
      drawn.style.overflowX = "auto";
      drawn.innerHTML = svg;
      block.replaceWith(drawn);
    }
  };
  document.head.append(script);
}
