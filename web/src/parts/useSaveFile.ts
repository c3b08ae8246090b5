import { useMutation } from "@tanstack/react-query";
import { api, data } from "@/api/client";
import { notifyError } from "./notify";

/**
 * Downloads a file from another origin, where a link may only open it: requests a URL that makes the browser save it.
 */
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
