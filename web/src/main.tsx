import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "./design/tokens.css";
import { ApiError, NetworkError } from "./api/problems";
import { App } from "./app";
import { applyTheme } from "./parts/theme";

applyTheme();
const root = document.getElementById("root");
if (root !== null) {
  // The page shows refusals of the server. They are not errors of the page.
  const onCaughtError = (error: unknown) => {
    if (!(error instanceof ApiError || error instanceof NetworkError)) console.error(error);
  };
  createRoot(root, { onCaughtError }).render(
    <StrictMode>
      <App />
    </StrictMode>,
  );
}
