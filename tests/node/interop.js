// What the real BullMQ of Node, and Bull Board, say and do: one command a line on stdin, one JSON answer a line on stdout.
// node interop.js <port> <prefix> <bullmq|bullmq5>
const [port, prefix, library] = process.argv.slice(2);
const { Queue, Worker } = require(library);
const connection = { host: '127.0.0.1', port: Number(port), maxRetriesPerRequest: null };

const queues = {};
// While Redis is away it says so again and again; who asks waits.
const open = (name) => new Queue(name, { connection, prefix }).on('error', () => {});
const queue = (name) => (queues[name] ??= open(name));
const workers = {};

// Bull Board without a server: its routes, called as a browser's requests would be.
let board;
function openBoard(names) {
  const { createBullBoard } = require('@bull-board/api');
  const { BullMQAdapter } = require('@bull-board/api/bullMQAdapter');
  const server = {};
  for (const setter of ['ViewsPath', 'StaticPath', 'UIConfig', 'EntryRoute', 'ErrorHandler']) {
    server[`set${setter}`] = () => server;
  }
  server.setQueues = (queues) => Object.assign(server, { queues });
  server.setApiRoutes = (routes) => Object.assign(server, { routes });
  createBullBoard({ queues: names.map((name) => new BullMQAdapter(queue(name))), serverAdapter: server });
  return server;
}
function routeOf(route, method, path) {
  if (![route.method].flat().includes(method)) return null;
  for (const pattern of [route.route].flat()) {
    const found = path.match(new RegExp(`^${pattern.replace(/:(\w+)/g, '(?<$1>[^/]+)')}$`));
    if (found) return { ...found.groups };
  }
  return null;
}

const commands = {
  async add({ queue: name, job, data, opts }) {
    return (await queue(name).add(job, data, opts)).id;
  },
  // Which of these ids it takes. One below 0 is stored, and then taken for the error code of the script.
  async ids({ queue: name, ids }) {
    const taken = [];
    for (const jobId of ids) {
      try {
        await queue(name).add('x', {}, { jobId });
        taken.push(jobId);
      } catch (err) {
        if (!/Custom Id|JobId cannot|Unknown code/.test(err.message)) throw err;
      }
    }
    return taken;
  },
  async counts({ queue: name }) {
    return queue(name).getJobCounts('waiting', 'paused', 'active', 'delayed', 'prioritized', 'completed', 'failed');
  },
  async job({ queue: name, id }) {
    const job = await queue(name).getJob(id);
    if (!job) return null;
    const { logs } = await queue(name).getJobLogs(id);
    const { data, opts, attemptsMade, failedReason, returnvalue, progress, stacktrace } = job;
    const state = await job.getState();
    return { name: job.name, state, data, opts, attemptsMade, failedReason, returnvalue, progress, stacktrace, logs };
  },
  async act({ queue: name, id, act }) {
    const job = await queue(name).getJob(id);
    await job[act]();
    return true;
  },
  async pause({ queue: name }) {
    await queue(name).pause();
    return true;
  },
  async resume({ queue: name }) {
    await queue(name).resume();
    return true;
  },
  async schedulers({ queue: name }) {
    return (await queue(name).getJobSchedulers()).map(({ key, name, pattern, every, tz, next }) => ({
      key, name, pattern, every: every === undefined ? undefined : Number(every), tz, next,
    }));
  },
  async upsert({ queue: name, id, repeat, template }) {
    await queue(name).upsertJobScheduler(id, repeat, template);
    return true;
  },
  // A request of Bull Board's page, whose board has these queues.
  async board({ queues: names, method = 'get', path, query = {}, body }) {
    board ??= openBoard(names);
    for (const route of board.routes) {
      const params = routeOf(route, method, path);
      if (params) {
        const answer = await route.handler({ queues: board.queues, uiConfig: {}, params, query, body, headers: {} });
        return { status: answer.status ?? 200, body: answer.body };
      }
    }
    throw new Error(`Bull Board has no ${method} ${path}`);
  },
  async workers({ queue: name }) {
    return (await queue(name).getWorkers()).length;
  },
  // Does this many jobs; their ids and names in order.
  async work({ queue: name, count, fail }) {
    const done = [];
    await new Promise((resolve) => {
      workers[name] = new Worker(
        name,
        async (job) => {
          if (fail) throw new Error(fail);
          return { did: job.name };
        },
        { connection, prefix, settings: { backoffStrategy: () => 50 } },
      );
      const note = (job) => done.push([job.id, job.name, job.data]) >= count && resolve();
      workers[name].on('completed', note);
      workers[name].on('failed', note);
    });
    await workers[name].close();
    return done;
  },
};

const answer = (value) => process.stdout.write(JSON.stringify(value) + '\n');
const lines = require('readline').createInterface({ input: process.stdin });
lines.on('line', async (line) => {
  const command = JSON.parse(line);
  try {
    answer({ ok: await commands[command.do](command) });
  } catch (err) {
    answer({ err: String(err.message) });
  }
});
lines.on('close', () => process.exit(0));
