import type { Schemas } from "@/api/types";
import { counted } from "./plurals";

type Lack = Schemas["Lack"];

export const requirementsTexts = {
  title: "What an engine must have",
  text: "A worker gets jobs of this workflow if its engines have everything that is required here. A worker that does not report what its engines have also gets jobs.",
  fromGraph: "Take node classes and models from the graph",
  fromGraphHint: "Otherwise only what is listed here is required.",
  ignore: "In the graph, but not required",
  ignoreHint: "Node classes and model files, one in each line.",
  nodeClasses: "More node classes",
  nodeClassesHint: "One in each line, as ComfyUI names them.",
  models: "More models, with an optional hash",
  modelsHint: "If you give a hash, the file must have this hash. Without a hash, any file with this name is accepted.",
  model: "File name",
  modelName: (place: number) => `File name of model ${place}`,
  modelHash: (place: number) => `SHA-256 of model ${place}`,
  hashPlaceholder: "SHA-256, optional",
  wrongHash: "A SHA-256 has 64 digits from 0 to f.",
  addModel: "Add a model",
  removeModel: (name: string) => `Remove the model ${name}`,
  version: "Engine versions",
  versionHint: "For example >=0.3.57,<0.8. Empty: every version.",
  saved: "Saved requirements",
  nodeClassList: "Node classes",
  modelList: "Models",
  nothing: "None",
  anyVersion: "Every version",
  withHash: "with its hash",

  workers: "Workers",
  workersText: "Live workers that are assigned to this workflow, compared with the saved requirements.",
  unsaved:
    "Your changes are not saved, so they are not compared. Save them to see which workers can run the workflow then.",
  noWorkers: "No live worker is assigned to this workflow.",
  chooseFleets: "Choose fleets",
  able: (able: number, all: number) =>
    able === 0
      ? "No live worker can run it"
      : able === all
        ? all === 1
          ? "The only worker can run it"
          : `All ${counted(all, "worker")} can run it`
        : `${able} of ${counted(all, "worker")} can run it`,
  can: "Can run it",
  cannot: "Cannot run it",
  unreported: "They do not report what their engines have, so they get the jobs of this workflow.",
  count: (workers: number) => counted(workers, "worker"),
  draining: (workers: number) => `${workers} of them draining`,
  more: (count: number) => `and ${count} more`,
  lacks: "Missing:",
  lack: {
    node_class: (name: string) => `node class ${name}`,
    model: (name: string) => `model ${name}`,
    model_hash: (name: string) => `model ${name} with the required hash`,
    engine_version: (name: string) => `engine version ${name}`,
    choice: (name: string) => `choice ${name}`,
  } satisfies Record<Lack["kind"], (name: string) => string>,
};
