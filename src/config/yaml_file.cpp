// SPDX-License-Identifier: Apache-2.0
#include "config/yaml_file.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "config/configs_folder.h"
#include "config/key_table.h"
#include "errors/errors.h"

namespace ballast {
namespace {

namespace fs = std::filesystem;

Fault file_fault(std::string where, std::string what) {
  Fault fault;
  fault.where = "config: " + std::move(where);
  fault.what = std::move(what);
  return fault;
}

// Where a document's content begins.
struct ContentStart : YAML::EventHandler {
  std::optional<YAML::Mark> mark;
  bool is_empty = false;
  void note(const YAML::Mark& event) {
    if (!mark) mark = event;
  }
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& event, YAML::anchor_t) override {
    is_empty = !mark;
    note(event);
  }
  void OnAlias(const YAML::Mark& event, YAML::anchor_t) override { note(event); }
  void OnScalar(const YAML::Mark& event, const std::string&, YAML::anchor_t, const std::string&) override {
    note(event);
  }
  void OnSequenceStart(const YAML::Mark& event, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    note(event);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& event, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    note(event);
  }
  void OnMapEnd() override {}
};

// Collects the entries of one file; nested maps become keys with dots.
class FileReader {
 public:
  explicit FileReader(std::string name) : name_(std::move(name)) {}

  Layer read(const std::string& path) {
    YAML::Node document;
    if (fs::is_directory(path)) throw ConfigError(file_fault(name_, "is a folder, not a file"));
    try {
      document = YAML::LoadFile(path);
      refuse_second_document(path);
    } catch (const YAML::ParserException& e) {
      throw ConfigError(
          file_fault(place(e.mark) + ":" + std::to_string(e.mark.column + 1), "not valid YAML: " + e.msg));
    } catch (const YAML::Exception&) {
      throw ConfigError(file_fault(name_, "cannot be read"));
    }
    if (document.IsNull()) return {};
    if (!document.IsMap()) throw ConfigError(file_fault(name_ + ":1", "is no map of keys and values"));
    add_map("", document, 0);
    return std::move(layer_);
  }

 private:
  std::string place(const YAML::Mark& mark) const { return name_ + ":" + std::to_string(mark.line + 1); }

  // LoadAll() would not do: at a sign it does not expect, such as a comma, it makes empty documents without end.
  void refuse_second_document(const std::string& path) const {
    std::ifstream stream(path, std::ios::binary);
    YAML::Parser parser(stream);
    ContentStart first, second;
    if (!parser.HandleNextDocument(first) || !parser.HandleNextDocument(second)) return;
    throw ConfigError(file_fault(second.mark ? place(*second.mark) : name_,
                                 second.is_empty ? "an empty second document, or a sign that YAML does not expect here"
                                                 : "a second document in one file"));
  }

  // Aliases can make a short file endless, or larger than memory.
  void count(const YAML::Node& node, int depth) {
    if (depth > kMaxDepth) throw ConfigError(file_fault(place(node.Mark()), "nested too deeply"));
    if (++num_nodes_ > kMaxNodes) throw ConfigError(file_fault(place(node.Mark()), "too many values"));
  }

  Value to_value(const YAML::Node& node, int depth) {
    count(node, depth);
    Value value;
    if (node.IsSequence()) {
      value.shape = Value::Shape::kList;
      for (const YAML::Node& item : node) value.items.push_back(to_value(item, depth + 1));
    } else if (node.IsMap()) {
      value.shape = Value::Shape::kMap;
      for (const auto& entry : node) {
        value.names.push_back(entry.first.Scalar());
        value.items.push_back(to_value(entry.second, depth + 1));
      }
    } else {
      value.text = node.Scalar();
      value.is_quoted = node.Tag() == "!";
    }
    return value;
  }

  void add_map(const std::string& prefix, const YAML::Node& map, int depth) {
    count(map, depth);
    for (const auto& entry : map) {
      const std::string where = place(entry.first.Mark());
      if (!entry.first.IsScalar()) throw ConfigError(file_fault(where, "a key must be a word"));
      const std::string key = prefix + entry.first.Scalar();
      const bool is_group = find_key(key) == nullptr && (entry.second.IsMap() || entry.second.IsNull());
      if (is_group && (entry.second.IsMap() || is_key_group(key))) {
        add_map(key + ".", entry.second, depth + 1);
        continue;
      }
      const auto [earlier, is_new] = layer_.emplace(key, Setting{to_value(entry.second, depth), where});
      if (is_new) continue;
      throw ConfigError(file_fault(where + " " + key, "given twice, first at " + earlier->second.origin));
    }
  }

  static constexpr int kMaxDepth = 64;
  static constexpr int kMaxNodes = 100000;
  std::string name_;
  Layer layer_;
  int num_nodes_ = 0;
};

std::string join_chain(const std::vector<std::string>& files) {
  std::string line;
  for (const std::string& file : files) line += (line.empty() ? "" : " -> ") + file;
  return line;
}

// `open` holds the canonical paths of the files whose bases are being read.
Layer read_chain(const std::string& path, const std::string& configs_folder, std::vector<std::string>& open) {
  Layer layer = read_config_file(path, configs_folder);
  const auto found = layer.find("base_config");
  if (found == layer.end()) return layer;
  const Setting named = found->second;
  layer.erase(found);
  const std::string& base = named.value.text;
  const std::string where = named.origin + " base_config";
  if (is_absent(named.value)) return layer;
  if (named.value.shape != Value::Shape::kScalar) throw ConfigError(file_fault(where, "need the path of one file"));

  std::string base_path = (fs::path(path).parent_path() / base).string();
  if (!fs::exists(base_path)) base_path = find_shipped_file(base, configs_folder);
  if (base_path.empty()) throw ConfigError(file_fault(where, "no such file, beside it or shipped: " + base));
  open.push_back(fs::weakly_canonical(path).string());
  for (const std::string& file : open) {
    if (fs::weakly_canonical(base_path).string() != file) continue;
    open.push_back(file);
    throw ConfigError(file_fault(where, "files that are each other's base: " + join_chain(open)));
  }
  Layer merged = read_chain(base_path, configs_folder, open);
  open.pop_back();
  overlay(merged, layer);
  return merged;
}

}  // namespace

void overlay(Layer& lower, const Layer& upper) {
  for (const auto& [key, setting] : upper) lower[key] = setting;
}

std::string display_name(const std::string& path, const std::string& configs_folder) {
  if (configs_folder.empty()) return path;
  const fs::path relative = fs::weakly_canonical(path).lexically_relative(fs::weakly_canonical(configs_folder));
  const bool is_shipped = !relative.empty() && *relative.begin() != "..";
  return is_shipped ? (fs::path("configs") / relative).string() : path;
}

Layer read_config_file(const std::string& path, const std::string& configs_folder) {
  return FileReader(display_name(path, configs_folder)).read(path);
}

Layer read_config_chain(const std::string& path, const std::string& configs_folder) {
  std::vector<std::string> open;
  return read_chain(path, configs_folder, open);
}

}  // namespace ballast
