/**
 * The cause and the next step for an operator, by error type of a job. A test compares the types with those in
 * `src/callsheet`.
 */
export const failureHints: Readonly<Record<string, string>> = {
  // Waiting, leases and deadlines
  queue_deadline:
    "No worker took the job before its deadline. Look at the workers of this workflow and at why its jobs wait, then replay the job.",
  deadline:
    "The job was running when its deadline passed. Look at how long this workflow runs and waits, use more or faster workers, then replay the job.",
  expired:
    "The job did not finish before its deadline. Look at how long this workflow runs and waits, then replay the job.",
  lease_expired:
    "The last worker of this job stopped sending heartbeats, and no attempt is left. Look at the worker's page and at its machine (memory, network, spot capacity), then replay the job.",
  lease_lost:
    "The workers of this job disappeared while they held its lease. Look at the machines of these workers, then replay the job.",
  attempts_exhausted:
    "Every attempt was interrupted. Find out why its workers ended (spot capacity, restarts), then replay the job.",
  callback_expired:
    "The provider accepted the job but did not call back in time. Check that the provider can reach server.public_url from the internet and look at the providers page, then replay the job.",
  dispatch_ended:
    "The dispatch ended but the job did not, so the reconciler ended the job. The usual cause is a crash of a control plane or a database. Read the events of the job, then replay the job.",
  result_lost:
    "A worker finished the job, but its result was not recorded, and the user was not charged. The usual cause is a crash of a control plane or a database. Replay the job.",
  canceled: "It was canceled. Replay is not possible; its user can submit it again.",
  // Engines
  out_of_memory:
    "The engine ran out of memory. Use smaller inputs or batches, a worker with more memory, or fewer engines on one GPU.",
  engine_disk_full:
    "The disk of the engine's machine is full. Delete files there, for example old outputs and unused models, then replay the job.",
  execution_error:
    "A node of the graph failed. Read the traceback, then look at this node's inputs in the graph. If it is a custom node, update it on the workers.",
  invalid_workflow:
    "The engine refused the graph. Install the missing nodes or model files on the workers of this workflow, or correct the workflow and publish it again.",
  engine_stuck:
    "The engine stopped working and had to be restarted. If it happens again with this workflow, look at the node that it stopped in.",
  engine_unreachable:
    "The worker could not reach its engine. Look at the engine's log on that machine, then replay the job.",
  engine_busy: "The engine had runs of other programs in its queue. Give the worker an engine of its own.",
  engine_too_old: "Update ComfyUI on this worker.",
  no_engine:
    "The worker has no engine for the provider of this job. Add this engine to the worker's settings, or give the workflow a provider that its workers have, then replay the job.",
  run_limit:
    "The run took longer than the workflow or the provider allows. Raise the run limit, or use a faster worker.",
  run_lost:
    "The engine was restarted during the run. Find out why it was restarted (often memory), then replay the job.",
  run_removed:
    "Another client removed the run from the engine's queue. Check which other programs use this engine, then replay the job.",
  run_stalled:
    "Comfy Cloud made no more progress with the run. Look at the status page of Comfy Cloud, then replay the job.",
  interrupted:
    "Another client interrupted the run at the engine. Check which other programs use this engine, then replay the job.",
  cloud_key_refused: "Comfy Cloud does not accept the API key. Set a valid key on the worker, then replay the job.",
  cloud_no_credits: "The Comfy Cloud account has no credits left. Buy credits at Comfy Cloud, then replay the job.",
  cloud_inactive:
    "The Comfy Cloud subscription is not active. Renew the subscription at Comfy Cloud, then replay the job.",
  // Inputs
  input_unreadable:
    "An input of the job could not be fetched. Check that it still exists and that the worker reaches storage.",
  input_too_large:
    "An input file is larger than the engine accepts. Raise the engine's limit for uploads (ComfyUI: --max-upload-size), or ask the user for a smaller file.",
  upload_refused:
    "The engine did not accept an input file. Look at the engine's log and at the free disk space of its machine, then replay the job.",
  undeliverable: "An input of the job no longer exists, so no worker can get the job. The user has to submit it again.",
  // Results
  no_output:
    "The run ended without a result. Check the output node of the workflow, and whether a node blocked its branch. For a provider, read its message.",
  empty_output:
    "The engine or the actor wrote an empty file. Look at the log and at the free disk space of the worker's machine, and at the node that saves the result, then replay the job.",
  too_many_outputs:
    "The run made more files than a job may deliver. Save a video instead of frames, or name one output node.",
  foreign_output: "The engine returned a file of another run from its cache. Update the node that saves the result.",
  output_lost: "Images that the engine sends over its socket did not arrive. Use SaveImage in the workflow instead.",
  output_unreadable:
    "The file of the result could not be read from the engine or the provider. Check the disk of the engine and the name of the file, or read the provider's status in the details.",
  output_unusable:
    "The provider finished, but its files could not be downloaded or have another type than the task promises. Read the reason in the details. Check the model of the task, then replay the job.",
  output_too_large:
    "The provider made a file that is larger than the limit. Raise max_bytes of the provider's downloads, or ask for a smaller result, then replay the job.",
  output_not_media:
    "The provider returned a file that is not an image, a video or a sound. Check the path of the outputs in the provider's settings.",
  output_refused:
    "The result was not accepted. Read the reason in the details: its size or type does not fit the settings of storage, or its URL leads to a network that must not be fetched.",
  graph_in_result:
    "The result contains the graph of the workflow, which cannot be removed from this type of file. Let the workflow keep its metadata, or start ComfyUI with --disable-metadata.",
  result_refused:
    "The control plane did not accept the result of the task. Read the message: the result may be too large, may not be valid JSON, or may name a missing file. Correct the actor, then replay the job.",
  upload_failed: "The result could not be stored. Look at storage on the page Health, then replay the job.",
  // Workers and actors
  worker_error: "The agent itself failed. Read the traceback, update the agent, then replay the job.",
  wrong_worker: "The job was given to a worker that cannot run it. Check the workflow's workers and providers.",
  no_actor:
    "The worker does not have the actor of this task. Restart the task worker with the same actors as the control plane, then replay the job.",
  actor_error:
    "The code of the actor raised an error. Read the traceback, correct the actor, restart its workers, then replay the job.",
  invalid_payload:
    "The actor refused the payload of the task. Read the message; the user has to submit the task with another payload.",
  invalid_request:
    "The worker refused the payload that the control plane had accepted. Check that workers and control planes have the same actors and provider settings. Otherwise the user has to submit another payload.",
  no_callback:
    "There is no URL that the provider could call back. Set server.public_url to the URL of this installation, restart the control planes, then replay the job.",
  // Providers
  provider_unavailable:
    "The provider did not respond. Its jobs wait while it is paused; replay this one when it works again.",
  provider_refused_key: "The provider refused the API key. Set a valid key, then replay the job.",
  provider_refused: "The provider refused the request. Read its message; another payload may be needed.",
  provider_failed: "The provider could not run the job. Read its message, then replay the job.",
  provider_canceled:
    "The job was canceled at the provider, not here. Check which other people or programs use the provider's account, then replay the job.",
  provider_moved:
    "The provider's URL redirects to another URL. Change the URL in the provider's settings, then replay the job.",
  provider_not_found:
    "The provider does not know the id of its job. Check that the provider's account and key are still the same, then replay the job.",
  provider_not_set_up: "The provider is not configured. Set its key in the settings, then replay the job.",
  provider_answer:
    "The provider returned a response that cannot be used. Read the message, and check the paths in the provider's settings against the provider's documentation.",
  // Pages of products
  page_unreachable:
    "The page could not be reached. Check the URL and whether this installation can reach its host, then replay the job.",
  page_refused:
    "The site refused to return the page, or the site failed. Open the page in a browser. If it opens there, replay the job later.",
  page_too_large: "The page is larger than the limit of the scraper. The user has to submit another page.",
  page_unreadable:
    "The page could not be parsed in time. The user has to submit another page, or to enter the product by hand.",
  not_a_page: "The URL leads to a file that is not a web page. The user has to submit the URL of the product's page.",
  no_product:
    "The page has no product that could be read. The user has to submit the product's own page, or to enter the product by hand.",
  robots_refused:
    "The site's robots.txt does not allow the page to be read. The user has to enter the product by hand.",
  address_refused:
    "The URL leads to a private network, which is not fetched. The user has to submit a public URL, or an operator allows this network in the settings.",
  parser_missing:
    "The package that parses pages is not installed on this machine. Install the extra that the message names, restart the process, then replay the job.",
};
export const unknownHint =
  "Read the message and the traceback, look at the worker's log of that time, then replay the job.";
