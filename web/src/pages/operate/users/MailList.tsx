import { useInfiniteQuery } from "@tanstack/react-query";
import { MailCheck } from "lucide-react";
import { api, data } from "@/api/client";
import { keys } from "@/api/keys";
import { Badge, Button, type Column, Empty, Time } from "@/design";
import { notifyDone } from "@/parts/notify";
import { PagedTable } from "@/parts/PagedTable";
import { useAction } from "@/parts/useAction";
import { useRole } from "@/parts/useRole";
import { type Mail, mailsQuery } from "@/parts/user/queries";
import { mailTexts as texts } from "@/texts/users";

/** E-mails that the mail server has not accepted, with the reason. An operator can send them again. */
export function MailList() {
  const { mayOperate } = useRole();
  const query = useInfiniteQuery(mailsQuery);
  const send = useSend();
  const columns: readonly Column<Mail>[] = [
    {
      name: texts.columns.email,
      className: "min-w-40 lg:min-w-60",
      cell: (mail) => (
        // A phone has no room for more columns.
        <div className="grid gap-0.5">
          <span className="font-[550] [overflow-wrap:anywhere]">{mail.email}</span>
          <span className="text-s text-muted">{texts.kinds[mail.kind]}</span>
          <span className="my-1 sm:hidden">
            <State mail={mail} />
          </span>
          {mail.last_error && (
            <span className="text-s text-muted [overflow-wrap:anywhere] lg:hidden">{mail.last_error}</span>
          )}
        </div>
      ),
    },
    { name: texts.columns.state, className: "max-sm:hidden", cell: (mail) => <State mail={mail} /> },
    {
      name: texts.columns.error,
      className: "w-full max-lg:hidden",
      cell: (mail) => <span className="text-s [overflow-wrap:anywhere]">{mail.last_error ?? texts.noError}</span>,
    },
    { name: texts.columns.attempts, right: true, className: "max-sm:hidden", cell: (mail) => mail.attempts },
    {
      name: texts.columns.next,
      right: true,
      className: "max-lg:hidden",
      cell: (mail) =>
        mail.failed_at ? texts.never : <Time at={mail.due_at} className="whitespace-nowrap text-muted" />,
    },
  ];
  const again: Column<Mail> = {
    name: texts.send,
    head: <span className="sr-only">{texts.send}</span>,
    right: true,
    cell: (mail) => (
      <Button
        size="s"
        className="whitespace-nowrap"
        busy={send.isPending && send.variables === mail.id}
        aria-label={texts.sendTo(mail.email)}
        onClick={() => send.mutate(mail.id)}
      >
        {texts.send}
      </Button>
    ),
  };
  return (
    <>
      <p className="mb-4 max-w-prose text-muted">{texts.text}</p>
      <PagedTable
        query={query}
        columns={mayOperate ? [...columns, again] : columns}
        rowKey={(mail) => mail.id}
        label={texts.list}
        empty={<Empty icon={<MailCheck size={20} />} title={texts.none} text={texts.noneText} />}
      />
    </>
  );
}

function State({ mail }: { mail: Mail }) {
  return <Badge tone={mail.failed_at ? "bad" : "warn"}>{mail.failed_at ? texts.failed : texts.waiting}</Badge>;
}

function useSend() {
  return useAction({
    mutationFn: (id: number) =>
      data(api.POST("/api/admin/mails/{mail_id}/send", { params: { path: { mail_id: id } } })),
    onSuccess: (mail) => notifyDone(texts.sent(mail.email)),
    changes: [keys.mails],
  });
}
