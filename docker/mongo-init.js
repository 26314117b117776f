// Run by mongosh, as often as one likes: makes the replica set, and turns pre-images on.
// Without a pre-image a delete does not say whose the document was, and reaches no client.

try {
  rs.status();
} catch (notYet) {
  rs.initiate({ _id: "rs0", members: [{ _id: 0, host: "mongo:27017" }] });
}
while (!db.hello().isWritablePrimary) {
  sleep(200);
}

const images = { changeStreamPreAndPostImages: { enabled: true } };
const prefix = process.env.MONGO_PREFIX;

// The configs of the clients, and one collection to try it with.
for (const [name, collection] of [["context", "configs"], ["identity", "users"]]) {
  const database = db.getSiblingDB(`${prefix}-${name}`);
  if (!database.getCollectionNames().includes(collection)) {
    database.createCollection(collection, images);
  }
}

for (const { name } of db.adminCommand({ listDatabases: 1, nameOnly: true }).databases) {
  if (!name.startsWith(`${prefix}-`)) continue;
  const database = db.getSiblingDB(name);
  for (const { name: collection } of database.getCollectionInfos({ type: "collection" })) {
    if (!collection.startsWith("system.")) database.runCommand({ collMod: collection, ...images });
  }
}
