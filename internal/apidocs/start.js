// Shows the contract that this server serves. Everything that would call another server is off; the policy of the page forbids it too.
Scalar.createApiReference("#reference", {
  url: "/openapi.yaml",
  withDefaultFonts: false,
  telemetry: false,
  persistAuth: false,
  hideClientButton: true,
  showDeveloperTools: "never",
  agent: { disabled: true },
  mcp: { disabled: true },
});
