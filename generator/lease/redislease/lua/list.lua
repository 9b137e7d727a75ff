-- KEYS meta, slots, expiry
-- ARGV first worker, how many

local lo, count = tonumber(ARGV[1]), tonumber(ARGV[2])
local reply = { 'ok', text(clock()) }
local workers = {}
for i = 1, count do
  workers[i] = text(lo + i - 1)
end
local rows = redis.call('HMGET', KEYS[2], unpack(workers))
for i, worker in ipairs(workers) do
  if rows[i] then
    reply[#reply + 1] = worker
    reply[#reply + 1] = rows[i]
    reply[#reply + 1] = redis.call('ZSCORE', KEYS[3], worker) or '0'
  end
end
return reply
