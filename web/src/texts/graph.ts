export const graphTexts = {
  id: (id: string) => `#${id}`,
  zoomIn: "Zoom in",
  zoomOut: "Zoom out",
  fit: "Show the whole graph",
  map: "Small map of the graph",
};
