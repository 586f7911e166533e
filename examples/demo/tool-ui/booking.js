// How the console shows `book_hotel`. Each module of this folder is given React and registers components by tool name;
// docs/console.md says what a component gets. What a tool said is text: createElement shows it and never runs it.
export default ({ React, registerTool }) => {
  const h = React.createElement;

  function Booking({ call }) {
    if (call.status === "error") return h("p", { className: "fault" }, call.error);
    if (call.status !== "complete") return h("p", { className: "quiet" }, `Booking ${call.args.hotel} …`);
    const { hotel, reference } = call.result;
    return h("p", { className: "question" }, "A room at ", h("strong", null, hotel), ", reference ", h("code", null, reference));
  }

  registerTool("book_hotel", Booking);
};
