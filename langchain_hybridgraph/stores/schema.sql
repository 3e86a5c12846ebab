-- Tables of the catalog.
--
-- The indexes whose names end in "values" contain all columns that no other index has. SQLite's integrity check
-- compares each row with its entries in the indexes, so a value that has changed in one place does not go unnoticed.

CREATE TABLE about (
    name TEXT PRIMARY KEY,
    value NOT NULL
) WITHOUT ROWID;
CREATE INDEX fact_values ON about (value);

-- Everything that has an id. Chunks are searched, parents are pointed to, other nodes are only joined by edges.
-- A chunk's row is its number in the keyword index; every accepted version of a chunk gets a new one. Neither row
-- numbers nor node numbers are ever reused.
CREATE TABLE nodes (
    node INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('chunk', 'parent', 'graph')),
    row INTEGER UNIQUE,
    document TEXT,
    parent TEXT,
    session TEXT,
    turn INTEGER,
    text TEXT,
    metadata TEXT,
    text_hash BLOB,
    content_hash BLOB,
    -- position of the chunk in the directory tree, so that the tree can be read without the metadata
    uri TEXT,
    context_type TEXT,
    UNIQUE (tenant, id)
);
CREATE INDEX nodes_by_document ON nodes (tenant, document) WHERE document IS NOT NULL;
CREATE INDEX children ON nodes (tenant, parent) WHERE parent IS NOT NULL;
CREATE INDEX chunks_by_text ON nodes (tenant, hex(text_hash)) WHERE row NOT NULL;
CREATE INDEX parents ON nodes (tenant) WHERE kind = 'parent';
CREATE INDEX turns ON nodes (tenant, session, turn) WHERE session IS NOT NULL;

-- The state of each chunk and parent, apart from its text because it is short and changes often.
-- valid_*: when it is true in the world. learned_at to retracted_at: when the store asserts it. A chunk past expires_at
-- may be deleted; a superseded fact has also ended, but is kept.
CREATE TABLE learned (
    node INTEGER PRIMARY KEY,
    valid_from REAL,
    valid_until REAL,
    learned_at REAL NOT NULL,
    retracted_at REAL,
    expires_at REAL,
    confidence REAL,
    utility REAL,
    active_count INTEGER NOT NULL,
    used_at REAL,
    created_at REAL,
    memory_type TEXT,
    provenance_depth INTEGER NOT NULL,
    updated_at REAL
);
CREATE INDEX expiring ON learned (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX retracted ON learned (retracted_at) WHERE retracted_at IS NOT NULL;
CREATE INDEX learned_values ON learned (
    learned_at, valid_from, valid_until, retracted_at, expires_at, confidence, utility, active_count, used_at,
    created_at, memory_type, provenance_depth, updated_at
);
-- Earlier values, each with the time until which it was known.
CREATE TABLE past_validity (
    node INTEGER NOT NULL,
    known_until REAL NOT NULL,
    valid_from REAL,
    valid_until REAL,
    PRIMARY KEY (node, known_until)
) WITHOUT ROWID;
CREATE INDEX validity_values ON past_validity (valid_from, valid_until);
CREATE TABLE past_trust (
    node INTEGER NOT NULL,
    known_until REAL NOT NULL,
    confidence REAL,
    utility REAL,
    PRIMARY KEY (node, known_until)
) WITHOUT ROWID;
CREATE INDEX trust_values ON past_trust (confidence, utility);
-- Nodes whose state changed, the last 5,000 changes: mirrors in memory follow this log, in this process and in
-- others.
CREATE TABLE learned_changes (
    number INTEGER PRIMARY KEY,
    node INTEGER NOT NULL
);
CREATE TRIGGER learned_otherwise AFTER UPDATE ON learned BEGIN
    INSERT INTO learned_changes (node) VALUES (new.node);
    DELETE FROM learned_changes WHERE number <= (SELECT max(number) FROM learned_changes) - 5000;
END;
-- Number of times a source's statements were confirmed and refuted.
CREATE TABLE credibility (
    tenant TEXT NOT NULL,
    source TEXT NOT NULL,
    ok INTEGER NOT NULL,
    bad INTEGER NOT NULL,
    PRIMARY KEY (tenant, source)
) WITHOUT ROWID;
CREATE INDEX credibility_values ON credibility (ok, bad);

CREATE TABLE edges (
    source INTEGER NOT NULL,
    relation TEXT NOT NULL,
    target INTEGER NOT NULL,
    weight REAL NOT NULL,
    description TEXT NOT NULL,
    valid_from REAL,
    valid_until REAL,
    learned_at REAL NOT NULL,
    PRIMARY KEY (source, relation, target)
) WITHOUT ROWID;
CREATE INDEX edge_values ON edges (
    target, source, relation, weight, description, valid_from, valid_until, learned_at
);

-- Edges and nodes (source = target) that each statement changed: the graph in memory follows this log, in this
-- process and in others. Triggers write it, so that no statement can forget to.
CREATE TABLE graph_changes (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    source INTEGER NOT NULL,
    target INTEGER NOT NULL
);
CREATE TRIGGER edge_added AFTER INSERT ON edges
    BEGIN INSERT INTO graph_changes (source, target) VALUES (new.source, new.target); END;
CREATE TRIGGER edge_changed AFTER UPDATE ON edges
    BEGIN INSERT INTO graph_changes (source, target) VALUES (new.source, new.target); END;
CREATE TRIGGER edge_deleted AFTER DELETE ON edges
    BEGIN INSERT INTO graph_changes (source, target) VALUES (old.source, old.target); END;
CREATE TRIGGER chunk_added AFTER INSERT ON nodes WHEN new.row NOT NULL
    BEGIN INSERT INTO graph_changes (source, target) VALUES (new.node, new.node); END;
CREATE TRIGGER node_changed AFTER UPDATE ON nodes WHEN new.row IS NOT old.row OR new.kind <> old.kind
    BEGIN INSERT INTO graph_changes (source, target) VALUES (new.node, new.node); END;
CREATE TRIGGER node_deleted AFTER DELETE ON nodes
    BEGIN INSERT INTO graph_changes (source, target) VALUES (old.node, old.node); END;
CREATE TRIGGER node_forgotten AFTER DELETE ON nodes WHEN old.kind <> 'graph' BEGIN
    DELETE FROM learned WHERE node = old.node;
    DELETE FROM past_validity WHERE node = old.node;
    DELETE FROM past_trust WHERE node = old.node;
END;

-- The outbox: the rows that each version changed. Engines and readers look up the present state in nodes.
CREATE TABLE changes (
    version INTEGER NOT NULL,
    row INTEGER NOT NULL,
    PRIMARY KEY (version, row)
) WITHOUT ROWID;

-- Files that an ingest has read completely. The next ingest skips those that have not changed. Any change to a chunk of
-- a file's documents deletes the file's record in the same transaction; the list of its documents is kept.
CREATE TABLE files (
    tenant TEXT NOT NULL,
    source TEXT NOT NULL,
    stamp TEXT NOT NULL,
    digest BLOB NOT NULL,
    made_by BLOB NOT NULL,
    chunks INTEGER NOT NULL,
    parents INTEGER NOT NULL,
    PRIMARY KEY (tenant, source)
) WITHOUT ROWID;
CREATE INDEX file_values ON files (stamp, digest, made_by, chunks, parents);
CREATE TABLE file_documents (
    tenant TEXT NOT NULL,
    source TEXT NOT NULL,
    place INTEGER NOT NULL,
    document TEXT NOT NULL,
    PRIMARY KEY (tenant, source, place)
) WITHOUT ROWID;
CREATE INDEX files_of_documents ON file_documents (tenant, document);
CREATE TRIGGER chunk_put AFTER INSERT ON nodes WHEN new.document NOT NULL BEGIN
    DELETE FROM files WHERE (tenant, source) IN (
        SELECT tenant, source FROM file_documents WHERE tenant = new.tenant AND document = new.document
    );
END;
CREATE TRIGGER chunk_changed AFTER UPDATE OF document, content_hash ON nodes BEGIN
    DELETE FROM files WHERE (tenant, source) IN (
        SELECT tenant, source FROM file_documents
        WHERE tenant = new.tenant AND document IN (old.document, new.document)
    );
END;
CREATE TRIGGER chunk_deleted AFTER DELETE ON nodes WHEN old.document NOT NULL BEGIN
    DELETE FROM files WHERE (tenant, source) IN (
        SELECT tenant, source FROM file_documents WHERE tenant = old.tenant AND document = old.document
    );
END;

-- Absolute path of each file, so that another file with the same source is noticed. It is kept when the file's record
-- is deleted.
CREATE TABLE file_paths (
    tenant TEXT NOT NULL,
    source TEXT NOT NULL,
    path BLOB NOT NULL,
    PRIMARY KEY (tenant, source)
) WITHOUT ROWID;
CREATE INDEX path_values ON file_paths (path);

INSERT INTO about VALUES ('version', 0), ('next_row', 0), ('floor', 0), ('generation', 0), ('graph_floor', 0);
PRAGMA user_version = 6;
