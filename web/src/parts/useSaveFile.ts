import { useMutation } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { notifyError } from "./notify";

/** For a file at another origin, where a link may only show it: asks for a URL at which the browser saves it. */
export function useSaveFile() {
  return useMutation({
    mutationFn: (fileId: string) =>
      data(api.GET("/api/files/{file_id}", { params: { path: { file_id: fileId }, query: { download: true } } })),
    onSuccess: (file) => {
      if (file.url) window.location.assign(file.url);
    },
    onError: (error: unknown) => notifyError(error),
  });
}
