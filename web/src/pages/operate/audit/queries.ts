import { infiniteQueryOptions, keepPreviousData } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { BY_NUMBER } from "@/api/cursors";
import { keys } from "@/api/keys";
import type { Schemas } from "@/api/types";
import type { AuditSearch } from "./filters";

export type AuditEntry = Schemas["AuditEntry"];
const PER_PAGE = 50;

export const auditLogQuery = ({ actor, action, type, subject, tenant, since, until }: AuditSearch) =>
  infiniteQueryOptions({
    queryKey: keys.auditLog({ actor, action, type, subject, tenant, since, until }),
    queryFn: ({ pageParam, signal }) =>
      data(
        api.GET("/api/admin/audit-logs", {
          params: {
            query: {
              actor,
              action,
              subject_type: type,
              subject_id: subject,
              tenant_id: tenant,
              since,
              until,
              cursor: pageParam,
              limit: PER_PAGE,
            },
          },
          signal,
        }),
      ),
    ...BY_NUMBER,
    placeholderData: keepPreviousData,
  });
