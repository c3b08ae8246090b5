// Reads a graph in ComfyUI's API format. Pure.
// {"3": {"class_type": …, "inputs": {"model": ["4", 0]}, "_meta": {"title": …}}}

export interface NodeInput {
  name: string;
  /** Own values of the node. Links are in `from`. */
  value?: unknown;
  /** The node and the output number that this input is connected to. The node may be missing in the graph. */
  from?: { node: string; slot: number };
}

export interface GraphNode {
  id: string;
  classType: string;
  /** The title that a user gave the node, otherwise its class. */
  title: string;
  inputs: readonly NodeInput[];
}

export interface GraphEdge {
  id: string;
  source: string;
  target: string;
  /** Inputs of the target that are connected to the source. */
  inputs: readonly string[];
}

export interface Graph {
  nodes: readonly GraphNode[];
  edges: readonly GraphEdge[];
}

/** The graph in a value, or null. Values come from users, so invalid parts are left out. */
export function readGraph(value: unknown): Graph | null {
  if (!isObject(value)) return null;
  const nodes = Object.entries(value).flatMap(([id, each]) =>
    isObject(each) && typeof each.class_type === "string" ? [readNode(id, each)] : [],
  );
  return nodes.length === 0 ? null : { nodes, edges: edgesOf(nodes) };
}

function readNode(id: string, value: Record<string, unknown>): GraphNode {
  const classType = String(value.class_type);
  const meta = isObject(value._meta) ? value._meta.title : undefined;
  const inputs = isObject(value.inputs) ? Object.entries(value.inputs) : [];
  return {
    id,
    classType,
    title: typeof meta === "string" && meta.trim() ? meta.trim() : classType,
    inputs: inputs.map(([name, each]) => readInput(name, each)),
  };
}

function readInput(name: string, value: unknown): NodeInput {
  if (!Array.isArray(value) || value.length !== 2) return { name, value };
  const [node, slot] = value as [unknown, unknown];
  const isLink = (typeof node === "string" || typeof node === "number") && typeof slot === "number";
  return isLink ? { name, from: { node: String(node), slot } } : { name, value };
}

/** One edge per pair of nodes, however many inputs connect them. */
function edgesOf(nodes: readonly GraphNode[]): GraphEdge[] {
  const ids = new Set(nodes.map((node) => node.id));
  const edges = new Map<string, GraphEdge>();
  for (const node of nodes) {
    for (const { name, from } of node.inputs) {
      if (from === undefined || !ids.has(from.node)) continue;
      const id = JSON.stringify([from.node, node.id]);
      edges.set(id, { id, source: from.node, target: node.id, inputs: [...(edges.get(id)?.inputs ?? []), name] });
    }
  }
  return [...edges.values()];
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
