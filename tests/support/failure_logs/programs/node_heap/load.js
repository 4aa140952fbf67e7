const a = [];
for (;;) a.push(new Array(1000).fill({ a: 1 }).map((x) => ({ ...x })));
