// What a refusal means for whoever waits for the answer.
const MEANING = {
  503: "The server cannot reach its database at the moment.",
  507: "The disk of the server is full; whoever runs it has to make room.",
};

export const failed = (status) => MEANING[status] ?? `The server answered ${status}.`;
