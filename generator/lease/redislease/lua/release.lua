-- KEYS meta, slots, expiry
-- ARGV worker, term, token
-- The high water stays, and the row can be taken once it has passed.

local worker, term, token = ARGV[1], ARGV[2], ARGV[3]
local score = redis.call('ZSCORE', KEYS[3], worker)
local value = redis.call('HGET', KEYS[2], worker)
if not value then
  return { 'lost' }
end
local row = parse(worker, value)
if token == '' or row.term ~= term or row.token ~= token then
  return { 'lost' }
end
redis.call('HSET', KEYS[2], worker, join(term, row.high, '', row.generation))
redis.call('ZADD', KEYS[3], row.high, worker)
return { 'ok' }
