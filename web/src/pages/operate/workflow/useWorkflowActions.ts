import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api } from "@/api/client";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import { notifyDone } from "@/parts/notify";
import { useAction } from "@/parts/useAction";
import { DRAFT_FIELDS, type Draft } from "@/parts/workflow/draft";
import { same } from "@/parts/workflow/exact";
import { exactly, type Fleet, type WorkflowDetail } from "@/parts/workflow/queries";
import { workflowsTexts } from "@/texts/workflows";

/** Only the changed fields. */
function changes(saved: Draft, draft: Draft): Partial<Draft> {
  return Object.fromEntries(
    DRAFT_FIELDS.filter((name) => !same(saved[name] ?? null, draft[name] ?? null)).map((name) => [name, draft[name]]),
  );
}

export function useSaveWorkflow(slug: string, onDone: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ saved, draft, version }: { saved: Draft; draft: Draft; version: number | null }) => {
      const body = { ...changes(saved, draft), version } as Schemas["UpdateWorkflow"];
      return exactly<WorkflowDetail>(
        api.PATCH("/api/admin/workflows/{workflow}", { params: { path: { workflow: slug } }, body, parseAs: "text" }),
      );
    },
    onSuccess: (workflow) => {
      client.setQueryData(keys.workflow(slug), workflow);
      onDone();
      void client.invalidateQueries({
        queryKey: keys.allWorkflows,
        predicate: (query) => query.queryKey.length !== keys.workflow(slug).length || query.queryKey[3] !== slug,
      });
      void client.invalidateQueries({ queryKey: keys.effects() });
      void notifyDone(workflowsTexts.saved(workflow.name));
    },
  });
}

export function useSwitchWorkflow(slug: string, onDone: () => void = () => undefined) {
  return useAction({
    mutationFn: (isActive: boolean) => {
      const path = isActive ? "/api/admin/workflows/{workflow}/activate" : "/api/admin/workflows/{workflow}/deactivate";
      return exactly<WorkflowDetail>(api.POST(path, { params: { path: { workflow: slug } }, parseAs: "text" }));
    },
    onSuccess: (workflow) =>
      void notifyDone(
        workflow.is_active ? workflowsTexts.activated(workflow.name) : workflowsTexts.retired(workflow.name),
      ),
    changes: [keys.allWorkflows],
    onEnd: onDone,
  });
}

export function useDeleteWorkflow(name: string, slug: string, onDone: () => void) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => api.DELETE("/api/admin/workflows/{workflow}", { params: { path: { workflow: slug } } }),
    onSuccess: () => {
      onDone();
      client.removeQueries({ queryKey: keys.workflow(slug) });
      void client.invalidateQueries({ queryKey: keys.allWorkflows });
      void notifyDone(workflowsTexts.deleted(name));
    },
  });
}

export function useFleetSwitch(slug: string) {
  return useAction({
    mutationFn: ({ fleet, isOn }: { fleet: Fleet; isOn: boolean }) => {
      const params = { path: { fleet_id: fleet.id } };
      return api.PATCH("/api/admin/fleets/{fleet_id}/workflows", {
        params,
        body: isOn ? { add: [slug] } : { remove: [slug] },
      });
    },
    onSuccess: (_, { fleet, isOn }) =>
      void notifyDone(
        (isOn ? workflowsTexts.fleetAdded : workflowsTexts.fleetRemoved)(workflowsTexts.fleet(fleet.slug, fleet.stage)),
      ),
    changes: [keys.fleetChoices],
  });
}
