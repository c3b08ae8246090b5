import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { rememberCsrfToken } from "@/api/session";
import type { Me } from "@/api/types";

export function useSignIn() {
  const enter = useEnter();
  return useMutation({
    mutationFn: (body: { email: string; password: string }) => data(api.POST("/api/auth/login", { body })),
    onSuccess: enter,
  });
}

export function useEnterDemo() {
  const enter = useEnter();
  return useMutation({ mutationFn: () => data(api.POST("/api/auth/demo")), onSuccess: enter });
}

/** Opens the requested page. Data of an earlier session is dropped. */
function useEnter() {
  const client = useQueryClient();
  const navigate = useNavigate();
  const { next } = useSearch({ from: "/sign-in" });
  return async (me: Me) => {
    client.clear();
    rememberCsrfToken(me.csrf_token);
    client.setQueryData(keys.me, me);
    await navigate({ href: next ?? "/effects", replace: true });
  };
}
