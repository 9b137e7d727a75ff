// Package redislease leases worker ids in Redis: a single server, one behind
// Sentinel, or a Cluster. It needs Redis 5 or later (or a server that is
// compatible with it) and go-redis v9.
//
//	store := redislease.New(client)                                // a failover may lose writes: wait 12 s, then issue
//	store := redislease.New(client, redislease.WithReplicas(1))    // one replica, which acknowledges each grant
//	store := redislease.New(client, redislease.WithDurable())      // appendonly yes, appendfsync always, no replica
//
// # What is promised
//
// Redis replicates asynchronously, so a promoted replica may lack the last
// grant, and FLUSHALL deletes all of them. No id is given twice nonetheless,
// as long as the stated durability is true:
//
//   - By default nothing is assumed but that an isolated primary stops taking
//     writes within the isolation time (1 s, see [WithIsolation]). A newcomer
//     claims a row at once and issues its first id only after a guard of
//     window + slack + isolation, 12 s, when whoever held the row and was
//     forgotten has used up its grant.
//   - [WithReplicas] waits for n replicas to acknowledge each grant. A replica
//     that is promoted then knows it, and newcomers need not wait.
//   - [WithDurable] states that a write that was acknowledged is never lost:
//     an append-only file that is synced at each write, and no replica.
//
// Redis does not tell its clients whether it syncs its file, so durability is
// stated and not guessed. What can be seen is checked at each acquisition: a
// replica beside WithDurable, or one more than WithReplicas says, is
// [ErrReplicas], and maxmemory-policy allkeys-*, which deletes rows to make
// room, is [ErrEviction].
//
// A namespace whose record is missing is begun: at its first use, after
// FLUSHALL, or on an empty replica. Owners of the time before are refused at
// their next extension, and whatever the durability, newcomers wait until
// their grants have ended. [WithoutBootstrap] makes it an error instead.
//
// # Keys
//
// A namespace has four keys in one hash slot, none of which expires:
//
//	{gormflake:<namespace>}:meta    hash: format, generation, floor, layout
//	{gormflake:<namespace>}:slots   hash: worker id to term|high water|token|generation
//	{gormflake:<namespace>}:expiry  sorted set: worker id by the time its lease ends
//	{gormflake:<namespace>}:blocks  hash: what backfills have reserved
//
// Don't give them a time to live, and don't edit or restore one of them alone.
//
// # Permissions
//
// For the namespace app, a user needs no more than
//
//	ACL SETUSER flake on >password ~{gormflake:app}:* -@all +eval +evalsha +time +hget +hmget +hset +zscore +zadd +wait +info +ping +hello +client
//
// and on a Cluster also +cluster, in a database other than 0 also +select.
package redislease
