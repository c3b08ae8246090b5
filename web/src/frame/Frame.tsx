import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Outlet, useRouter } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useState } from "react";
import { startLiveUpdates } from "@/api/live";
import { meQuery } from "@/api/queries";
import { onSessionEnd } from "@/api/session";
import { frameTexts } from "@/texts/frame";
import { AlertBanner } from "./AlertBanner";
import { BottomBar } from "./BottomBar";
import { CommandPalette } from "./CommandPalette";
import { ReconnectingBar } from "./ReconnectingBar";
import { Sidebar } from "./Sidebar";
import { TopBar } from "./TopBar";
import { useRefundNews } from "./useRefundNews";
import { useShortcuts } from "./useShortcuts";

const KeysDialog = lazy(() => import("./KeysDialog"));

/** Layout around every page of a signed-in user. */
export function Frame() {
  const [isPaletteOpen, setPaletteOpen] = useState(false);
  const [areKeysShown, setKeysShown] = useState(false);
  useLiveSession();
  useRefundNews();
  useShortcuts({ onPalette: () => setPaletteOpen((open) => !open), onKeys: () => setKeysShown(true) });
  return (
    <div className="min-h-dvh md:grid md:grid-cols-[224px_minmax(0,1fr)]">
      <a
        href="#content"
        className="sr-only z-50 rounded-s bg-panel px-3 py-2 focus:not-sr-only focus:fixed focus:top-2 focus:left-2"
      >
        {frameTexts.skip}
      </a>
      <Sidebar onKeys={() => setKeysShown(true)} />
      <div className="flex min-w-0 flex-col">
        <ReconnectingBar />
        <AlertBanner />
        <TopBar onSearch={() => setPaletteOpen(true)} />
        <main
          id="content"
          tabIndex={-1}
          className="mx-auto w-full max-w-page grow px-4 pt-5 pb-28 outline-none md:px-8 md:pt-7 md:pb-12 2xl:max-w-wide"
        >
          <Outlet />
        </main>
      </div>
      <BottomBar />
      <CommandPalette open={isPaletteOpen} onOpenChange={setPaletteOpen} onKeys={() => setKeysShown(true)} />
      {areKeysShown && (
        <Suspense fallback={null}>
          <KeysDialog onClose={() => setKeysShown(false)} />
        </Suspense>
      )}
    </div>
  );
}

/** Runs the event stream of this tab, and opens the sign-in page when the session ends. */
function useLiveSession(): void {
  const client = useQueryClient();
  const router = useRouter();
  const person = useQuery(meQuery).data?.user_id;
  useEffect(() => (person === undefined ? undefined : startLiveUpdates(client, person)), [client, person]);
  useEffect(
    () =>
      onSessionEnd(() => {
        // Several responses may report the end. The first one opened the sign-in page, and that page must not be the
        // way back.
        if (router.state.location.pathname === "/sign-in") return;
        const next = router.state.location.href;
        client.clear();
        void router.navigate({ to: "/sign-in", search: { next, ended: true }, replace: true });
      }),
    [client, router],
  );
}
