import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import icon from "@/icon.svg";
import { frameTexts } from "@/texts/frame";

/** Layout of a public page, without any account. */
export function ShareFrame({ children }: { children: ReactNode }) {
  return (
    <div className="flex min-h-dvh flex-col">
      <main className="mx-auto flex w-full max-w-5xl grow flex-col justify-center px-4 py-8 md:px-8">{children}</main>
      <footer className="flex justify-center border-t py-4 text-s text-muted">
        <Link to="/" className="flex min-h-9 touch:min-h-11 items-center gap-2 rounded-s px-2 hover:text-text">
          <img src={icon} alt="" width={18} height={18} />
          {frameTexts.product}
        </Link>
      </footer>
    </div>
  );
}
